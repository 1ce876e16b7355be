package lbgen

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Interpreted types have no names at run time, so that only a text tells a context key from others.
const stateKey = "lbgen.state"

// state travels with a request from its edge to an endpoint and back.
type state struct {
	edge      *edge
	route     *Route
	pool      *pool
	q         *request
	peer      string // address of the connection's other end
	from      string // the same with its port
	address   string // of the client, known when somebody asked for it
	client    http.ResponseWriter
	target    string // request target for the endpoint
	host      string // as the client sent it
	hash      string
	origin    string // of an allowed page, for the answer
	gzip      bool   // the client takes it
	counted   bool   // it counts as a request of the route under way
	countKey  string
	stuck     *endpoint
	unstuck   bool // the answer brings a cookie
	chosen    *endpoint
	tried     map[*endpoint]bool
	tries     int
	retrying  bool   // it counts against the budget of retries
	place     string // of the last try
	asked     time.Time
	answered  time.Time
	watch     *watch             // of the body on its way, nil for none
	slow      *watch             // of each read from the client, nil for none
	stop      context.CancelFunc // ends the try under way, nil for a request without a body
	held      []byte             // the body as far as it was read ahead
	complete  bool               // all of it is held
	bodied    bool
	length    int64 // of the client's body
	tunnelled bool
	broken    bool // the client's body could not be read
	left      bool // the client went before there was an answer
	rest      io.Reader
}

var (
	errNone = errors.New("no endpoint can be had")
	errLost = errors.New("no endpoint has an address")
)

// serve sends the request to an endpoint and the answer to the client. Go's proxy does the work: Traefik's own turns ;
// in a query into &, asks for gzip in the client's name, drops Proxy-Authorization and has no idle time.
func (p *pool) serve(w http.ResponseWriter, r *http.Request, s *state) {
	s.pool = p
	s.client = w
	s.length = r.ContentLength
	ctx := context.WithValue(r.Context(), stateKey, s)
	if s.route.Total > 0 && r.Header["Upgrade"] == nil {
		total := time.Duration(s.route.Total) * time.Millisecond
		limited, cancel := context.WithTimeout(ctx, total)
		defer cancel()
		ctx = limited
		client := http.NewResponseController(w) // for one that does not read; later than the answer that tells of the time
		_ = client.SetWriteDeadline(time.Now().Add(total + time.Second))
		defer client.SetWriteDeadline(time.Time{})
	}
	if r.ContentLength != 0 {
		ended, cancel := context.WithCancel(ctx)
		defer cancel()
		s.stop = cancel
		ctx = ended
	}
	s.out(w, r)
	r = r.WithContext(ctx)
	// A body that broke off ends in a panic of Go's proxy. Over HTTP/2 that resets the stream; see cut for HTTP/1.
	if r.ProtoMajor == 2 {
		defer p.settle(s)
		p.proxy.ServeHTTP(w, r)
		return
	}
	defer func() {
		failure := recover()
		p.settle(s)
		if failure != nil && (failure != http.ErrAbortHandler || !s.edge.cut(w)) {
			panic(failure)
		}
	}()
	p.proxy.ServeHTTP(w, r)
}

// settle gives back what a request held.
func (p *pool) settle(s *state) {
	if s.watch != nil {
		s.watch.stop()
	}
	if s.chosen != nil {
		p.leave(s.chosen)
	}
	if s.tunnelled && s.edge.counted != nil {
		s.edge.counted.ended()
	}
	if s.retrying {
		p.lock.Lock()
		p.retrying--
		p.lock.Unlock()
	}
}

// out makes the request what the endpoint gets. Its header and body belong to it alone since the edge.
func (s *state) out(w http.ResponseWriter, r *http.Request) {
	header := r.Header
	w.Header()["Content-Type"] = nil // an answer without one stays so
	// Go's proxy knows these by their usual spelling only: it would add the client's address again, and drop the others.
	if lines := header["X-Forwarded-For"]; lines != nil {
		header["x-forwarded-for"] = lines
	}
	header["X-Forwarded-For"] = nil
	if lines, found := header["Proxy-Authorization"]; found {
		header["proxy-authorization"] = lines
	}
	if lines, found := header["Proxy-Authenticate"]; found {
		header["proxy-authenticate"] = lines
	}
	if r.ContentLength == 0 {
		return
	}
	if s.route.Body != nil && s.route.Body.Limited && r.ContentLength < 0 {
		r.Body = http.MaxBytesReader(w, r.Body, int64(s.route.Body.Max))
	}
	body, streamed := r.Body, r.ProtoMajor == 2
	end := func() {
		if streamed {
			_ = body.Close() // ends a read of it; over HTTP/1 it would wait for that
		} else {
			s.edge.cut(w)
		}
		s.stop() // the endpoint may be the one that does not read, which ends no write to it
	}
	from := &clientBody{body: r.Body, state: s}
	if most := s.edge.conf.BodyTime; most > 0 && (s.route.Idle == 0 || most < s.route.Idle) {
		s.slow = newWatch(most, end)
		from.slow = s.slow
	}
	if s.route.Idle > 0 {
		s.watch = newWatch(s.route.Idle, end)
		s.watch.start()
		from.watch = s.watch
	}
	r.Body = from
}

var again = map[string]bool{"GET": true, "HEAD": true, "OPTIONS": true}

// RoundTrip is called by Go's proxy: it tries endpoints until one has answered or no further try is due.
func (p *pool) RoundTrip(r *http.Request) (*http.Response, error) {
	s := r.Context().Value(stateKey).(*state)
	if strings.HasPrefix(s.target, "//") {
		ownPath(r.URL, s.target) // as an opaque one it would gain a scheme
	} else {
		r.URL.Opaque = s.target // the request line, byte for byte
		r.URL.RawQuery = ""
		r.URL.ForceQuery = false
	}
	s.bodied = r.Body != nil
	if s.bodied {
		if err := s.hold(r); err != nil {
			return nil, err
		}
	}
	if len(s.route.Mirrors) > 0 {
		s.mirror(r)
	}
	s.asked = time.Now()
	try := r
	chosen := p.take(r.Context(), s)
	for {
		if chosen == nil {
			return nil, errNone
		}
		s.chosen = chosen
		host := chosen.place()
		for host == "" { // a name without an address: another endpoint, if there is one
			p.leave(chosen)
			s.chosen = nil
			if s.lost(chosen) {
				return nil, errLost
			}
			if chosen = p.take(r.Context(), s); chosen == nil {
				return nil, errLost
			}
			s.chosen = chosen
			host = chosen.place()
		}
		s.tries++
		s.place = host
		try.URL.Host = host
		if s.bodied {
			try.Body = s.body()
		} else if again[r.Method] && p.conf.Protocol == "http1" {
			// A body, though empty, keeps Go from sending the request a second time when a connection breaks.
			try.Body = io.NopCloser(strings.NewReader(""))
			try.ContentLength = -1
		}
		reply, err := chosen.transports[s.route.times].RoundTrip(try)
		if p.plain && s.route.Retries == nil {
			return reply, err
		}
		next := p.judge(r, s, reply, err)
		if next == nil {
			return reply, err
		}
		if reply != nil {
			_ = reply.Body.Close()
		}
		chosen = next
		try = r.WithContext(r.Context())
	}
}

// lost notes that an endpoint has no address; true when that is so of all.
func (s *state) lost(chosen *endpoint) bool {
	if s.tried == nil {
		s.tried = map[*endpoint]bool{}
	}
	s.tried[chosen] = true
	return len(s.tried) >= len(s.pool.endpoints)
}

// cut closes the client's connection, so that it sees the body break off. The panic would do the same and fill the log.
func (e *edge) cut(w http.ResponseWriter) bool {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	if e.counted != nil {
		e.counted.ended() // to Go's server it was a tunnel
	}
	return connection.Close() == nil
}

// modify makes an endpoint's answer what the client gets.
func modify(reply *http.Response) error {
	s := reply.Request.Context().Value(stateKey).(*state)
	s.answered = time.Now()
	route := s.route
	if route.Cors != nil {
		route.Cors.strip(reply.Header)
	}
	if s.watch != nil { // that of the request's body
		s.watch.stop()
		s.watch = nil
	}
	tunnelled := reply.StatusCode == http.StatusSwitchingProtocols
	s.tunnelled = tunnelled
	empty := reply.ContentLength == 0 || reply.Request.Method == http.MethodHead
	if route.Idle > 0 {
		if tunnelled {
			reply.Body = tunnel(reply.Body, route.Idle)
		} else if !empty {
			body := reply.Body
			client := s.client
			s.watch = newWatch(route.Idle, func() {
				_ = body.Close()
				_ = http.NewResponseController(client).SetWriteDeadline(time.Now()) // it may be the one that does not read
			})
			s.watch.start()
			reply.Body = &watchedBody{body: body, watch: s.watch}
		}
	}
	if !tunnelled && !empty {
		if route.Body != nil && route.Body.Reply {
			reply.Body = buffered(reply.Body)
		}
		if s.gzip && route.Compression.fits(reply) {
			compress(reply)
		}
	}
	if s.unstuck {
		sticky := s.pool.conf.Sticky
		reply.Header.Add("Set-Cookie", sticky.Cookie+"="+s.chosen.conf.ID+sticky.Line)
	}
	s.edits(reply.Header)
	return nil
}

// edits are what the route asks of every answer to its requests.
func (s *state) edits(h http.Header) {
	if s.route.Cors != nil {
		s.route.Cors.show(h, s.origin)
	}
	if s.route.Reply != nil {
		edit(h, s.route.Reply)
	}
}

// answer is a status of the proxy's own for a request that has a route.
func (s *state) answer(w http.ResponseWriter, r *http.Request, status int) {
	w.Header().Set("Content-Type", "text/plain")
	s.finish(w, r, status, phrase(status)+"\n")
}

func (s *state) finish(w http.ResponseWriter, r *http.Request, status int, body string) {
	s.edits(w.Header())
	finish(w, r, status, body, nil)
}

// failed answers when no endpoint did.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	s := r.Context().Value(stateKey).(*state)
	if s.slow != nil && s.slow.expired() || s.watch != nil && s.watch.expired() { // the client stopped within its body
		if r.ProtoMajor == 2 {
			s.answer(w, r, http.StatusRequestTimeout)
		}
		return // of HTTP/1 the connection is closed
	}
	if !s.asked.IsZero() {
		s.answered = time.Now()
	}
	if errors.Is(err, context.Canceled) {
		s.left = true
		s.edge.cut(w)
		return
	}
	status := http.StatusBadGateway
	var network net.Error
	var large *http.MaxBytesError
	if err == errNone || err == errLost {
		status = http.StatusServiceUnavailable
	} else if errors.As(err, &large) {
		status = http.StatusRequestEntityTooLarge
	} else if s.broken {
		status = http.StatusBadRequest
		if r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
	} else if errors.As(err, &network) && network.Timeout() {
		status = http.StatusGatewayTimeout
	}
	r.ContentLength = s.length // not that of the try
	s.answer(w, r, status)
}
