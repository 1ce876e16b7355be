package lbgen

import (
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A plain request goes to its endpoint by a native proxy with a native transport. What is interpreted on its way is one
// function, long because a call costs more than most of what stands in it.

// noBody is the body of a request that has none. A body, though empty, keeps Go from sending the request a second time
// when a connection breaks; the coding keeps Go from trying to read it first.
var (
	noBody   = io.NopCloser(strings.NewReader(""))
	identity = []string{"identity"}
)

// bufferPool lends buffers to copy answers with.
type bufferPool struct{ pool *sync.Pool }

var buffers = &bufferPool{pool: &sync.Pool{New: func() any { return make([]byte, 32*1024) }}}

// Get lends one.
func (b *bufferPool) Get() []byte { return b.pool.Get().([]byte) }

// Put takes it back.
func (b *bufferPool) Put(lent []byte) { b.pool.Put(lent) }

// asksLittle is whether a route asks for nothing but a pool.
func (r *Route) asksLittle() bool {
	return len(r.Targets) == 1 && r.Targets[0].Request == nil && r.Rewrite == nil && r.Request == nil && r.Reply == nil &&
		r.Access == nil && r.Rate == nil && r.Concurrency == nil && r.Body == nil && r.Cors == nil && r.Compression == nil &&
		r.Total == 0 && r.Retries == nil && len(r.Mirrors) == 0
}

// isPlain is whether requests of a route without a body can go the short way.
func (r *Route) isPlain() bool {
	if !r.asksLittle() || r.chosen || r.changed {
		return false
	}
	p := r.Targets[0].pool
	return p.simple && p.conf.Proxy == "" && (p.conf.Balance == "round_robin" || len(p.endpoints) == 1) && len(p.order) > 0
}

// proxies are native proxies for a pool's endpoints.
func (e *edge) proxies(route *Route) []*httputil.ReverseProxy {
	failed := func(w http.ResponseWriter, r *http.Request, err error) {
		s := &state{edge: e, route: route}
		s.fail(w, r, err)
		r.Context().Value(connKey).(*conn).left = s.left
	}
	made := []*httputil.ReverseProxy{}
	for _, each := range route.Targets[0].pool.endpoints {
		one := &httputil.ReverseProxy{
			Director:      director(route.scheme(), each.address),
			Transport:     each.transports[route.times],
			FlushInterval: flushInterval,
			ErrorHandler:  failed,
		}
		one.BufferPool = buffers // within the literal the interpreter does not accept it
		if e.log != nil {
			one.ModifyResponse = noteAnswer
		}
		made = append(made, one)
	}
	return made
}

// scheme is that of the endpoints.
func (r *Route) scheme() string {
	if r.Targets[0].pool.conf.TLS != nil {
		return "https"
	}
	return "http"
}

// flushInterval is Traefik's own.
const flushInterval = 100 * time.Millisecond

// director points requests to an endpoint.
func director(scheme, address string) func(*http.Request) {
	return func(r *http.Request) {
		r.URL.Scheme = scheme
		r.URL.Host = address
		if again[r.Method] {
			r.Body = noBody
			r.TransferEncoding = identity
		}
	}
}

func noteAnswer(reply *http.Response) error {
	c := reply.Request.Context().Value(connKey).(*conn)
	c.answered = time.Now()
	c.status = reply.StatusCode
	return nil
}

// newRoute serves the requests of a router.
func newRoute(conf *Config) http.Handler {
	route := conf.Route
	route.matched, route.prefix = conf.Matched, conf.Prefix
	if route.asksLittle() && !conf.Logged && !conf.Timed {
		return newProxyRoute(conf)
	}
	return newHandlerRoute(conf)
}

// newProxyRoute serves the requests of a route that asks for nothing but a pool: a native proxy, of which no more than the
// Director is interpreted. What is not plain fails there on purpose, and its ErrorHandler serves it.
func newProxyRoute(conf *Config) http.Handler {
	route := conf.Route
	one := &httputil.ReverseProxy{FlushInterval: flushInterval}
	one.BufferPool = buffers
	var e *edge
	var turns []int
	var addresses, own, port, dropped []string
	scheme, serial := "", -1 // of no edge: no request is plain
	tells, names, underscores := false, false, false
	turn := new(uint32)
	addUnlinked(conf.Listener, func(above *edge, used map[string]*pool) error {
		if err := route.prepare(used); err != nil {
			return err
		}
		e = above
		tells = above.conf.Forwarded // one by one: the interpreter confuses assignments to several of these variables
		names = above.conf.RequestID
		underscores = above.conf.Underscores
		own = above.scheme
		port = above.port
		dropped = above.dropped()
		if route.isPlain() {
			p := route.Targets[0].pool
			for _, each := range p.endpoints {
				addresses = append(addresses, each.address)
			}
			one.Transport = p.endpoints[0].transports[route.times] // no endpoint has a name, so all share it
			turns = p.order
			scheme = route.scheme()
			serial = above.serial
		}
		return nil
	})
	one.Director = func(r *http.Request) {
		if r.URL.Scheme != "" && (serial < 0 || !admitted(r)) {
			fail(r)
			return
		}
		c := plainOn(r, serial, underscores)
		if c == nil {
			fail(r)
			return
		}
		h := r.Header
		h["Connection"] = dropped // Go's proxy drops what it names
		if names {
			h["X-Request-Id"] = []string{newID()}
		}
		if tells { // X-Forwarded-For too: Go's proxy writes that
			h["X-Forwarded-Proto"] = own
			h["X-Forwarded-Port"] = port
			h["X-Forwarded-Host"] = []string{r.Host}
		} else {
			h["X-Forwarded-For"] = nil
		}
		c.current().Header()["Content-Type"] = nil // an answer without one stays so
		to := 0
		if len(turns) > 1 {
			to = turns[int(atomic.AddUint32(turn, 1))%len(turns)]
		}
		r.URL.Scheme = scheme
		r.URL.Host = addresses[to]
		if again[r.Method] {
			r.Body = noBody
			r.TransferEncoding = identity
		}
	}
	one.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
		if r.URL.Scheme == passed {
			_ = route.remaining(e, w, r, false)
			return
		}
		s := &state{edge: e, route: route}
		s.fail(w, r, err)
	}
	return one
}

// admitted makes a request for Traefik's matchers the one that it stands for, if that is plain.
func admitted(r *http.Request) bool {
	s, known := r.Context().Value(stateKey).(*state)
	if !known || !s.plain {
		return false
	}
	r.URL = s.request.URL
	r.Header = s.request.Header.Clone()
	return true
}

// fail makes a request one that a transport refuses.
func fail(r *http.Request) {
	r.URL.Scheme = passed
	r.Header = http.Header{} // no upgrade, which Go's proxy would look at first
}

// newHandlerRoute serves the requests of a route that asks for more, of a listener with a log, or with an idle time of its own.
func newHandlerRoute(conf *Config) http.Handler {
	route := conf.Route
	var e *edge
	var to *log // nil for none
	var proxies []*httputil.ReverseProxy
	var turns []int
	var texts, scheme, port, dropped []string
	serial := -1 // of no edge: no request is plain
	tells, names, underscores := false, false, false
	turn := new(uint32)
	step := time.Duration(0)
	addUnlinked(conf.Listener, func(above *edge, used map[string]*pool) error {
		if err := route.prepare(used); err != nil {
			return err
		}
		e = above
		tells = above.conf.Forwarded // one by one: the interpreter confuses assignments to several of these variables
		names = above.conf.RequestID
		underscores = above.conf.Underscores
		scheme = above.scheme
		port = above.port
		dropped = above.dropped()
		if conf.Timed {
			step = time.Duration(route.Idle) * time.Millisecond / steps
		}
		if route.isPlain() {
			proxies = above.proxies(route)
			turns = route.Targets[0].pool.order
			texts = above.logTexts(route, route.Targets[0].pool)
			to = above.log
			serial = above.serial
		}
		return nil
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c *conn
		if r.URL.Scheme == "" {
			c = plainOn(r, serial, underscores)
		}
		if c == nil {
			if r = route.remaining(e, w, r, serial > 0); r == nil {
				return
			}
			c = r.Context().Value(connKey).(*conn)
		}
		began := time.Now()
		h := r.Header
		h["Connection"] = dropped // Go's proxy drops what it names
		id := ""
		if names {
			id = newID()
			h["X-Request-Id"] = []string{id}
		}
		if tells { // X-Forwarded-For too: Go's proxy writes that
			h["X-Forwarded-Proto"] = scheme
			h["X-Forwarded-Port"] = port
			h["X-Forwarded-Host"] = []string{r.Host}
		} else {
			h["X-Forwarded-For"] = nil
		}
		w.Header()["Content-Type"] = nil // an answer without one stays so
		at := 0
		if len(turns) > 1 {
			at = turns[int(atomic.AddUint32(turn, 1))%len(turns)]
		}
		c.status = 0
		c.left = false
		var silence *time.Timer
		if step > 0 {
			silence = watchAnswer(w, step)
		}
		defer func() {
			failure := recover()
			if silence != nil {
				silence.Stop()
			}
			if to != nil {
				logPlain(to, w, r, began, c, texts[at], id)
			}
			if failure != nil {
				e.broken(w, failure)
			}
		}()
		proxies[at].ServeHTTP(w, r)
	})
}

// dropped names what clients may not say, and the edge does not say itself.
func (e *edge) dropped() []string {
	names := "X-Forwarded-Proto, X-Forwarded-Host, X-Forwarded-Port"
	if e.conf.Forwarded {
		names = "X-Forwarded-For" // Go's proxy writes it anew
	}
	if !e.conf.RequestID {
		names += ", X-Request-Id"
	}
	return []string{names}
}

// broken ends the connection of an answer that broke off; else it panics again.
func (e *edge) broken(w http.ResponseWriter, failure any) {
	if failure != http.ErrAbortHandler || !e.cut(w) {
		panic(failure)
	}
}

// remaining serves a request that is not plain, or not short, and gives one that is both after all as it was.
func (r *Route) remaining(e *edge, w http.ResponseWriter, given *http.Request, short bool) *http.Request {
	s, known := given.Context().Value(stateKey).(*state)
	if known && !s.plain {
		r.serve(w, s)
		return nil
	}
	from := original(w)
	if known && short {
		return from
	}
	if known || plainOn(from, e.serial, e.conf.Underscores) != nil {
		r.serveFrom(e, w, from)
	} else {
		e.serveOdd(w, from)
	}
	return nil
}

// serveFrom serves a request that is plain to its edge, but not to the route.
func (r *Route) serveFrom(e *edge, w http.ResponseWriter, from *http.Request) {
	s := e.stateOf(from)
	if e.log != nil {
		defer e.log.write(e, w, from, &entry{began: time.Now(), target: from.RequestURI, state: s})
	}
	r.serve(w, s)
}

// newLost answers requests that no rule takes.
func newLost(conf *Config) http.Handler {
	var e *edge
	addUnlinked(conf.Listener, func(above *edge, _ map[string]*pool) error {
		e = above
		return nil
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, known := r.Context().Value(stateKey).(*state)
		if known && !s.plain { // its edge writes the log
			plain(w, s.request, http.StatusNotFound, nil)
			return
		}
		r = original(w)
		if !known && plainOn(r, e.serial, e.conf.Underscores) == nil {
			e.serveOdd(w, r)
			return
		}
		noted := &entry{began: time.Now(), target: r.RequestURI}
		plain(w, r, http.StatusNotFound, nil)
		if e.log != nil {
			e.log.write(e, w, r, noted)
		}
	})
}

// mostTurns is how long the cycle of a pool may be.
const mostTurns = 10000

// cycle is the order in which a pool's endpoints have their turns, evenly interleaved; nil when it would be too long.
func (p *pool) cycle() []int {
	credits := make([]int, len(p.endpoints))
	total := 0
	for _, each := range p.endpoints {
		total += each.conf.Weight
	}
	if total > mostTurns {
		return nil
	}
	found := []int{}
	for len(found) < total {
		best := 0
		for i, each := range p.endpoints {
			credits[i] += each.conf.Weight
			if credits[i] > credits[best] {
				best = i
			}
		}
		credits[best] -= total
		found = append(found, best)
	}
	return found
}

// watchAnswer ends the client's connection when for so many steps nothing of an answer that began has come through.
func watchAnswer(w http.ResponseWriter, step time.Duration) *time.Timer {
	var timer *time.Timer
	still, before := 0, int64(0)
	timer = time.AfterFunc(step, func() {
		status, size := sent(w)
		if status == 0 || size != before {
			still, before = 0, size
		} else if still++; still >= steps {
			endSilence(w)
			return
		}
		timer.Reset(step)
	})
	return timer
}
