package lbgen

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var usual = map[string]bool{"GET": true, "HEAD": true, "POST": true, "PUT": true, "DELETE": true, "PATCH": true, "OPTIONS": true}

type edge struct {
	conf    *Config
	trusted []netip.Prefix
	next    http.Handler // Traefik's routers of the listener's rules
	asks    *Asked
	gate    *gate
	careful bool // the listener asks something of clients
	strict  bool // no request is plain
	serial  int  // of this configuration

	silences *silences // nil for none

	scheme  []string
	port    []string
	paths   *paths
	log     *log
	counted *connections
	handler http.HandlerFunc // of the server
	shares  sync.Mutex
}

// serveBelow is called by Traefik below its own handlers; once a server is taken over no longer, unless they are wanted.
func (e *edge) serveBelow(w http.ResponseWriter, r *http.Request) {
	if e.adopt(w, r) {
		e.serveDirect(restore(w, r), r)
	}
}

// A plain request begins with a line whose target every policy lets through as it is, and Traefik's matchers read alike: no
// escape, no empty or dot segment.
const plainFirst = `^(?:GET|HEAD|POST|PUT|DELETE|PATCH|OPTIONS) (?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?(?:\?[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]*)? HTTP/1\.1`

var (
	startsPlain = regexp.MustCompile(plainFirst + `\r\n`).Match
	isPlainLine = regexp.MustCompile(plainFirst + `$`).Match
)

// What asks for care: folded lines, fields that Go's proxy would not pass on as they are, those of a body and of keys (see
// hideKeys), a Connection that says more than what is so anyway, and, where they are not let in, names with an underscore.
const odd = `\r\n(?:[ \t]|(?i:te|proxy-authorization|proxy-authenticate|content-length|(?:x-)?idempotency-key):|` +
	`(?i:connection:[ \t]*(?:[^ \tk]|k(?:[^e]|e(?:[^e]|e(?:[^p]|p(?:[^-]|-(?:[^a]|a(?:[^l]|l(?:[^i]|i(?:[^v]|v(?:[^e]|e[ \t]*[^ \t\r])))))))))))`

var (
	asksCare     = regexp.MustCompile(odd + `|[^:\r\n]*_)`).Match
	asksLessCare = regexp.MustCompile(odd + `)`).Match
)

// Native functions under names of their own: the interpreter makes a variable of `package.Name` at each use.
var (
	count     = bytes.Count
	ends      = bytes.HasSuffix
	hasPrefix = bytes.HasPrefix
	next      = atomic.AddUint32
	now       = time.Now
	since     = time.Since
	fill      = rand.Read
	inHex     = hex.EncodeToString
)

// plainOn is the connection of a plain request of the edge with that serial number, nil for any other request. Routes have
// the same in their own functions, since the call costs a third of it.
func plainOn(r *http.Request, serial int, underscores bool) *conn {
	c, _ := r.Context().Value(connKey).(*conn)
	if c == nil || c.by != serial || c.host != r.Host {
		return nil
	}
	head := c.buffer[:*c.end]
	if !startsPlain(head) || asksCare(head) && (!underscores || asksLessCare(head)) {
		return nil
	}
	if !wholly(r, head) {
		return nil
	}
	return c
}

// wholly is whether a head without folded lines is all that came of a request, which has no body: each field has one line,
// besides the first line, Host and the last, empty one, and none was made or taken away by net/http. Of a head that is long or
// comes in pieces the buffer may hold no more than the end, which a client can have begin like a request within a value: then
// that field has no line of its own, and to make up for it another one would need two.
func wholly(r *http.Request, head []byte) bool {
	lines := count(head, lineEnd)
	if lines != len(r.Header)+3 || lines != count(head, lineFeed) || r.ContentLength != 0 {
		return false
	}
	for _, values := range r.Header {
		if len(values) > 1 {
			return false
		}
	}
	return hasPrefix(head, []byte(r.Method+" "+r.RequestURI+" HTTP/1.1\r"))
}

// newHandler is what Go's server calls: for plain requests Traefik's routers, whose routes look for the others.
func (e *edge) newHandler() http.HandlerFunc {
	if e.strict {
		return func(w http.ResponseWriter, r *http.Request) { e.serveDirect(w, r) }
	}
	// Native, and no call of the interpreter.
	below := reflect.ValueOf(e.next).MethodByName("ServeHTTP").Interface().(func(http.ResponseWriter, *http.Request))
	if e.asks == nil && !e.conf.Named {
		return http.HandlerFunc(below)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if e.asks == nil {
			r = r.WithContext(context.WithValue(r.Context(), hostKey, hostOf(r.Host)))
		} else if plainOn(r, e.serial, e.conf.Underscores) == nil {
			e.serveOdd(w, r)
			return
		} else {
			s := e.stateOf(r)
			s.plain = true
			r = s.routed(r)
		}
		below(w, r)
	}
}

// broken ends the connection of an answer that broke off; else it panics again.
func (e *edge) broken(w http.ResponseWriter, failure any) {
	if failure != http.ErrAbortHandler || !e.cut(w) {
		panic(failure)
	}
}

// serveOdd serves a request that is not plain, or the first with its Host on a connection.
func (e *edge) serveOdd(w http.ResponseWriter, r *http.Request) {
	if e.meets(w, r) {
		e.handler(w, r)
	} else {
		e.serveDirect(w, r)
	}
}

// meets is whether a request is the first with its Host on a connection that may bring plain ones, and from now on can.
func (e *edge) meets(w http.ResponseWriter, r *http.Request) bool {
	c, _ := r.Context().Value(connKey).(*conn)
	if c == nil || c.host == r.Host && c.by == e.serial || r.ProtoMajor != 1 || e.strict || !authority.MatchString(r.Host) {
		return false
	}
	c.find(w)
	c.host = r.Host
	c.hosts = []string{r.Host}
	if e.silences != nil && c.by != e.serial {
		e.silences.add(&silence{conn: c})
	}
	c.by = e.serial
	return true
}

// serveDirect serves any request.
func (e *edge) serveDirect(w http.ResponseWriter, r *http.Request) {
	if e.log == nil {
		e.serve(w, r, nil)
		return
	}
	entry := &entry{began: time.Now()}
	defer e.log.write(e, w, r, entry)
	e.serve(w, r, entry)
}

// In the interpreter a call costs about a microsecond, and a tenth of that each variable and each step of the function
// that is called, done or not: hence small functions for what every request needs, and others for the rest.
func (e *edge) serve(w http.ResponseWriter, r *http.Request, noted *entry) {
	target := r.RequestURI
	if noted != nil {
		noted.target = target
	}
	if (e.conf.Proxied || !usual[r.Method]) && !e.allows(w, r) {
		return
	}
	head := rawHead(w, r)
	if !ordinary(r, head) {
		known := false
		if target, known = e.accept(w, r, head); !known {
			return
		}
	}
	if r.Header["Connection"] != nil && !nominates(w, r) {
		return
	}
	path, matched, query, ok := target, target, "", true
	if e.conf.Target > 0 && len(r.RequestURI) > e.conf.Target {
		plain(w, r, http.StatusRequestURITooLong, nil)
		return
	}
	if !simple(target) {
		if path, matched, query, ok = e.paths.split(target); !ok {
			plain(w, r, http.StatusBadRequest, nil)
			return
		}
	}
	from := &arrival{peer: peerOf(r.RemoteAddr)}
	if e.careful && !e.admits(w, r, from) {
		return
	}
	if !e.conf.Underscores {
		dropUnderscores(r.Header)
	}
	q := &request{path: path, matched: matched, query: query, header: r.Header, host: r.Host}
	s := &state{edge: e, request: r, q: q, peer: from.peer, arrival: from, from: r.RemoteAddr, host: r.Host}
	if noted != nil {
		noted.state = s
	}
	e.next.ServeHTTP(w, s.routed(r))
}

// stateOf is the state of a plain request.
func (e *edge) stateOf(r *http.Request) *state {
	path, query := r.RequestURI, ""
	if at := strings.IndexByte(path, '?'); at >= 0 {
		path, query = path[:at], path[at:]
	}
	q := &request{path: path, matched: path, query: query, header: r.Header, host: r.Host}
	peer := peerOf(r.RemoteAddr)
	return &state{edge: e, request: r, q: q, peer: peer, arrival: &arrival{peer: peer}, from: r.RemoteAddr, host: r.Host}
}

// routed is a request for Traefik's matchers; its context has the state.
func (s *state) routed(r *http.Request) *http.Request {
	ctx := context.WithValue(r.Context(), stateKey, s)
	if hostKey != nil {
		ctx = context.WithValue(ctx, hostKey, hostOf(r.Host))
	}
	made := r.WithContext(ctx)
	path := s.q.matched
	made.Host = "" // which no plain request has
	made.URL = &url.URL{Path: path, RawPath: strings.ReplaceAll(path, "%", "%25")}
	made.Header = http.Header{}
	if s.edge.asks != nil {
		s.edge.asks.fill(made, s.q)
	}
	return made
}

// simple is whether every policy lets a target through as it is: no query, no escape, no empty or dot segment.
func simple(target string) bool {
	return strings.TrimLeft(target, alnum+"-_~./") == "" && !strings.Contains(target, "//") && !strings.Contains(target, "/.")
}

// ordinary is whether a request's head leaves nothing to ask but whether its target may pass.
func ordinary(r *http.Request, head []byte) bool {
	return r.ProtoMajor == 1 && r.ProtoMinor == 1 && r.TransferEncoding == nil &&
		authority.MatchString(r.Host) && strings.HasPrefix(r.RequestURI, "/") && (head == nil || !folded(head))
}

// dropUnderscores drops the fields that others may take for one with a hyphen.
func dropUnderscores(h http.Header) {
	for name := range h {
		if strings.IndexByte(name, '_') >= 0 {
			delete(h, name)
		}
	}
}

// allows is whether the connection and the method may be; if not it was answered.
func (e *edge) allows(w http.ResponseWriter, r *http.Request) bool {
	if e.conf.Proxied && !proxied(w) {
		if r.ProtoMajor == 2 { // only Go can close it, and does so after an answer
			w.Header().Set("Connection", "close")
			plain(w, r, http.StatusBadRequest, nil)
		} else {
			e.cut(w)
		}
		return false
	}
	if usual[r.Method] {
		return true
	}
	if r.Method == "" || !only(r.Method, upper+"_-") || !only(r.Method[:1], upper) {
		plain(w, r, http.StatusBadRequest, nil)
		return false
	}
	if r.Method == http.MethodTrace || r.Method == http.MethodConnect {
		plain(w, r, http.StatusMethodNotAllowed, nil)
		return false
	}
	return true
}

// admits is whether the listener's trust, limits and access list let a request in; if not it was answered.
func (e *edge) admits(w http.ResponseWriter, r *http.Request, from *arrival) bool {
	from.trust = len(e.trusted) > 0 && e.trusts(from.peer)
	if e.conf.Headers > 0 && headerBytes(r) > e.conf.Headers {
		plain(w, r, http.StatusRequestHeaderFieldsTooLarge, nil)
		return false
	}
	if e.gate != nil && !e.gate.admits(e.clientOf(from, r.Header)) {
		plain(w, r, http.StatusForbidden, nil)
		return false
	}
	return true
}

// serve does what the route asks for with a request that it got.
func (r *Route) serve(w http.ResponseWriter, s *state) {
	s.route = r
	if c, _ := s.request.Context().Value(connKey).(*conn); c != nil {
		c.patience = 0 // the answer has its own
	}
	if r.guarded {
		if !r.guard.passes(w, s.request, s, s.arrival) {
			return
		}
		if s.counted {
			defer r.guard.counts.leave(s.countKey)
		}
	}
	s.edge.act(w, s.request, s)
}

// headerBytes is the size of a request's header as lines.
func headerBytes(r *http.Request) int {
	total := len(r.Host) + 8
	for name, lines := range r.Header {
		for _, line := range lines {
			total += len(name) + len(line) + 4
		}
	}
	return total
}

// accept checks what is not ordinary before the path policy does, and gives the target in origin-form; false when it
// was refused.
func (e *edge) accept(w http.ResponseWriter, r *http.Request, head []byte) (string, bool) {
	target, ok := "", false
	if head == nil || !folded(head) {
		target, ok = e.readable(r, head)
	}
	if !ok {
		if r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close") // what follows may be read in two ways as well
		}
		plain(w, r, http.StatusBadRequest, nil)
	}
	return target, ok
}

func (e *edge) readable(r *http.Request, head []byte) (string, bool) {
	raw := r.RequestURI
	if r.ProtoMajor == 2 {
		hosts, lengths := r.Header["Host"], r.Header["Content-Length"]
		if len(hosts) > 1 || len(hosts) == 1 && hosts[0] != r.Host || len(lengths) > 1 ||
			len(lengths) == 1 && lengths[0] != "0" && r.ContentLength == 0 { // a body that cannot be there
			return "", false
		}
		return raw, e.conf.HTTP2 && strings.HasPrefix(raw, "/") && authority.MatchString(r.Host)
	}
	none := r.Host == "" && r.ProtoMinor == 0 && (head == nil || len(rawLines(head, "host")) == 0)
	if !none && !authority.MatchString(r.Host) || r.ProtoMinor > 1 {
		return "", false
	}
	if head != nil {
		codings := rawLines(head, "transfer-encoding")
		if len(codings) > 0 && (r.ProtoMinor == 0 || len(codings) > 1 || len(rawLines(head, "content-length")) > 0) {
			return "", false
		}
	}
	return origin(raw, func() (string, bool) {
		lines := rawLines(head, "host")
		if len(lines) != 1 || !authority.MatchString(lines[0]) {
			return "", false
		}
		return lines[0], true
	})
}

// peerOf is the address of the client, without port, brackets and zone.
func peerOf(address string) string {
	at := strings.LastIndexByte(address, ':')
	if at < 0 {
		return address
	}
	host := address[:at]
	if host[0] == '[' {
		host, _, _ = strings.Cut(host[1:at-1], "%")
	}
	return host
}

func (e *edge) trusts(peer string) bool {
	address, err := netip.ParseAddr(peer)
	return err == nil && covers(e.trusted, address.Unmap())
}

func (e *edge) act(w http.ResponseWriter, r *http.Request, s *state) {
	route := s.route
	if len(route.Targets) == 0 {
		e.own(w, r, s)
		return
	}
	target := route.Targets[0]
	if route.chosen {
		target = e.choice(s)
	}
	e.forwarded(r, s.arrival)
	s.target = s.q.path + s.q.query
	if route.changed {
		change(r, s, target)
	}
	target.pool.serve(w, r, s)
}

// own answers what no endpoint is asked.
func (e *edge) own(w http.ResponseWriter, r *http.Request, s *state) {
	route := s.route
	if route.Redirect != nil {
		w.Header().Set("Location", e.location(r, s))
		s.finish(w, r, route.Redirect.Status, "")
		return
	}
	for _, pair := range route.Respond.Headers {
		w.Header().Set(pair.Name, pair.Value)
	}
	s.finish(w, r, route.Respond.Status, route.Respond.Body)
}

// choice is the target where there is more than one way to choose.
func (e *edge) choice(s *state) *Target {
	target := s.route.Targets[0]
	if s.route.sticky {
		target = e.stuck(s)
	} else if len(s.route.Targets) > 1 {
		target = e.share(s.route)
	}
	if hash := target.pool.conf.Hash; hash != nil {
		s.hash, _ = s.keyOf(hash)
	}
	return target
}

// change is what the route and the target ask of the request.
func change(r *http.Request, s *state, target *Target) {
	route := s.route
	if route.Rewrite != nil {
		s.target = rewritten(s)
		if route.Rewrite.Host != "" {
			r.Host = route.Rewrite.Host
		}
	}
	if target.pool.conf.Protocol == "grpc" {
		r.Header["Te"] = trailers
	}
	edit(r.Header, route.Request)
	edit(r.Header, target.Request)
}

// stuck picks the target whose endpoint the client's cookie names, else one by weight.
func (e *edge) stuck(s *state) *Target {
	if found := s.stick(); found != nil {
		for _, each := range s.route.Targets {
			if each.pool == found {
				return each
			}
		}
	}
	target := s.route.Targets[0]
	if len(s.route.Targets) > 1 {
		target = e.share(s.route)
	}
	s.unstuck = target.pool.conf.Sticky != nil
	return target
}

// share picks a target by weight, evenly interleaved.
func (e *edge) share(route *Route) *Target {
	e.shares.Lock()
	defer e.shares.Unlock()
	total := 0
	var best *Target
	for _, each := range route.Targets {
		total += each.Weight
		each.credit += each.Weight
		if each.Weight > 0 && (best == nil || each.credit > best.credit) {
			best = each
		}
	}
	best.credit -= total
	return best
}
