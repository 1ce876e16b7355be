// Package lbgen makes Traefik keep lbgen's contract. It is data-driven: the middleware's configuration holds the rules.
//
// The middleware stands on the router of an entry point. It reads the target as the client sent it, picks the rule,
// answers what the proxy answers itself, and sends the rest to an endpoint of a pool. Pools, buckets and counters belong
// to the process: all listeners share them, and they outlive a change of the configuration. Go in here is interpreted,
// so work is left to the standard library wherever possible, and a route pays only for what it asks for.
package lbgen

import (
	"context"
	"net/http"
)

// Config is one listener, or with Route the route of a router below it. Times are milliseconds, 0 = no limit.
type Config struct {
	Listener  string
	Route     *Route // no edge: what happens to requests of one router
	Matched   string // the prefix or path of that router, for rewriting
	Prefix    bool   // it is a prefix
	Lost      bool   // no edge: what happens to requests that no rule takes
	Asks      *Asked // what rules look at
	Named     bool   // some ask for hosts
	Idle      int    // the shortest idle time of its routes, 0 = none has one
	Bare      bool   // of a route: it asks for nothing but a pool, and its listener has no log
	Address   string
	Port      string // that clients know
	Bound     string // where it listens, empty = there
	Scheme    string
	HTTP2     bool
	Through   bool // requests come through Traefik's own handlers, since it has routers of others
	Proxied   bool // every connection begins with a PROXY header
	Trusted   []string
	Forwarded bool
	RequestID bool
	HeadTime  int
	BodyTime  int
	Mode      string
	Empty     bool // exceptions of strict paths
	Slash     bool
	Plain     bool
	Headers   int // bytes, 0 = no limit
	Target    int
	Most      int // connections at a time, 0 = no limit
	Access    *Access
	Log       string // files, separated by commas; empty = none
	Pools     []*Pool
	Tells     bool     // no edge: it tells how the endpoints of all edges are
	Leaves    bool     // no edge: from now on all edges close connections after their next answer
	Taken     []string // no edge: it tells whether edges serve these listeners

	Underscores bool // request fields with one in their names are let in
}

// Route is what happens: Targets, Redirect or Respond, and what is asked before.
type Route struct {
	Name        string
	Targets     []*Target
	Connect     int
	Response    int
	Idle        int
	Total       int
	Rewrite     *Rewrite
	Redirect    *Redirect
	Respond     *Respond
	Request     *Edits
	Reply       *Edits
	Access      *Access
	Rate        *Rate
	Concurrency *Concurrency
	Body        *Body
	Cors        *Cors
	Compression *Compression
	Retries     *Retries
	Mirrors     []*Mirror
	matched     string // what its router matches
	prefix      bool   // which is a prefix
	guard       *guard
	times       string // which transport keeps the times
	guarded     bool   // something is asked before the action
	sticky      bool   // a pool of it has a sticky cookie
	chosen      bool   // there is more than one way to choose the target
	changed     bool   // it or a target changes requests
	answered    bool   // it changes endpoints' answers
}

// Target is a pool and its share.
type Target struct {
	Pool    string
	Weight  int
	Request *Edits
	pool    *pool
	credit  int // towards its next turn
}

// Rewrite changes the target's path and the host; an empty text changes nothing.
type Rewrite struct {
	Path   string
	Prefix string
	Host   string
}

// Redirect replaces what is not empty.
type Redirect struct {
	Status int
	Scheme string
	Host   string
	Port   string
	Path   string
	Prefix string
}

// Respond is an answer with a body.
type Respond struct {
	Status  int
	Body    string
	Headers []*Pair
}

// Edits are applied as remove, set, add.
type Edits struct {
	Remove []string
	Set    []*Pair
	Add    []*Pair
}

// Pair is a header line.
type Pair struct {
	Name  string
	Value string
}

// Access lists CIDRs; Closed = nobody but those allowed.
type Access struct {
	Deny   []string
	Allow  []string
	Closed bool
}

// Key is what is counted or hashed together: kind is route, client_ip, header, cookie or query.
type Key struct {
	Kind string
	Name string
}

// Rate is a token bucket for each value of the key.
type Rate struct {
	Amount  int
	Seconds int
	Burst   int
	Key     *Key
}

// Concurrency counts requests under way for each value of the key.
type Concurrency struct {
	Max int
	Key *Key
}

// Body is what is done with bodies: Limited ones have at most Max bytes.
type Body struct {
	Limited bool
	Max     int
	Request bool
	Reply   bool
}

// Cors is the policy for pages of other origins; MaxAge -1 = not set.
type Cors struct {
	Origins     []*Origin
	Methods     []string
	Headers     []string
	Expose      []string
	Credentials bool
	MaxAge      int
}

// Origin is a scheme with its colon and slashes, a host (a wildcard's without *.) and a port with its colon.
type Origin struct {
	Any      bool
	Scheme   string
	Host     string
	Port     string
	Wildcard bool
}

// Compression is gzip for answers of these types.
type Compression struct {
	Types []string
	Min   int
}

// Retries says what is tried again; Budget is in hundredths of a percent, -1 = no budget.
type Retries struct {
	Max      int
	Connect  bool
	Reset    bool
	Timeout  bool
	Statuses []int
	All      bool
	Budget   int
	statuses map[int]bool
}

// Mirror is a pool that gets copies, Percent in hundredths.
type Mirror struct {
	Pool    string
	Percent int
	pool    *pool
}

// Pool is a set of endpoints that are the same service.
type Pool struct {
	Name          string
	Balance       string
	Endpoints     []*Endpoint
	Keepalive     int
	KeepaliveIdle int // milliseconds, 0 = no limit
	Resolvers     []string
	Hash          *Key
	Active        *Active
	Passive       *Passive
	Max           int // requests at a time for each endpoint, 0 = no limit
	Queue         *Queue
	Sticky        *Sticky
	Slow          int
	TLS           *TLS
	Protocol      string
	Proxy         string // v1 or v2: a PROXY header begins every connection
}

// Endpoint is host and port; Lookup when the host is a name.
type Endpoint struct {
	Host   string
	Port   string
	Weight int
	Lookup bool
	Backup bool
	ID     string
}

// Active is a check that repeats; an empty path = a connection is enough, an empty port = the endpoint's own.
type Active struct {
	Path     string
	Port     string
	Interval int
	Timeout  int
	Fall     int
	Rise     int
	Statuses []*Range
}

// Range is of statuses, both ends included.
type Range struct {
	First int
	Last  int
}

// Passive takes an endpoint out after so many failures in a row.
type Passive struct {
	Failures int
	Eject    int
}

// Queue holds requests that wait for an endpoint.
type Queue struct {
	Size    int
	Timeout int
}

// Sticky is a cookie that names an endpoint; Line is what follows its value.
type Sticky struct {
	Cookie string
	Line   string
}

// TLS is what is spoken to endpoints; empty files are not used.
type TLS struct {
	CA     string
	Name   string
	Cert   string
	Key    string
	Verify bool
}

// CreateConfig is called by Traefik.
func CreateConfig() *Config {
	return &Config{}
}

// New is called by Traefik for each use of the middleware; the context ends when another configuration comes.
func New(ctx context.Context, next http.Handler, config *Config, _ string) (http.Handler, error) {
	if config.Tells {
		return http.HandlerFunc(tell), nil
	}
	if config.Leaves {
		leave()
		return http.NotFoundHandler(), nil
	}
	if len(config.Taken) > 0 {
		return taken(config.Taken), nil
	}
	if config.Lost {
		headers := []*Pair{&Pair{Name: "Content-Type", Value: "text/plain"}}
		config.Route = &Route{Respond: &Respond{Status: http.StatusNotFound, Body: "Not Found\n", Headers: headers}}
	}
	if config.Route != nil {
		return newRoute(config), nil
	}
	return newEdge(ctx, next, config)
}
