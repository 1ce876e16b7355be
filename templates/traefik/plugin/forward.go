package lbgen

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"reflect"
	"strings"
	"sync"
	"time"
)

// A plain request goes to its endpoint by a native proxy with a native transport. What is interpreted on its way is one
// function, long because a call costs more than most of what stands in it: each variable and each step of the function that
// is called is allocated, done or not.

// noBody is the body of a request that has none. A body, though empty, keeps Go from sending the request a second time
// when a connection breaks; the coding keeps Go from trying to read it first.
var (
	noBody   = io.NopCloser(strings.NewReader(""))
	identity = []string{"identity"}
	none     []string
)

// bufferPool lends buffers to copy answers with.
type bufferPool struct{}

var unlent = &sync.Pool{New: func() any { return make([]byte, 32*1024) }}

// Get lends one.
func (*bufferPool) Get() []byte { return unlent.Get().([]byte) }

// Put takes it back; see lendTo.
func (*bufferPool) Put(lent []byte) { unlent.Put(lent) }

// lendTo gives a proxy the buffers. What the interpreter makes of a bufferPool is a struct with a function for each method:
// that for Put becomes a native one. Get has to stay, since what a sync.Pool gives is no []byte to reflection.
func lendTo(proxy *httputil.ReverseProxy) {
	proxy.BufferPool = &bufferPool{} // within a literal the interpreter does not accept it
	field := reflect.ValueOf(proxy).Elem().FieldByName("BufferPool")
	made := reflect.New(field.Elem().Type()).Elem()
	made.Set(field.Elem())
	put := made.FieldByName("WPut")
	put.Set(reflect.MakeFunc(put.Type(), reflect.ValueOf(unlent).MethodByName("Put").Call))
	field.Set(made)
}

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

// newProxy is a native proxy for the endpoints of a route.
func (e *edge) newProxy(route *Route) *httputil.ReverseProxy {
	one := &httputil.ReverseProxy{Director: sendOnce, FlushInterval: flushInterval}
	one.Transport = route.transport()
	lendTo(one)
	one.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
		s := &state{edge: e, route: route}
		s.fail(w, r, err)
		if s.left {
			r.Context().Value(connKey).(*conn).status = clientLeft
		}
	}
	if e.log != nil {
		one.ModifyResponse = noteAnswer
	}
	return one
}

// sendOnce keeps Go from sending a request a second time. It is a Director, since the proxy hides what the body is before.
func sendOnce(r *http.Request) {
	if again[r.Method] {
		r.Body = noBody
		r.TransferEncoding = identity
	}
}

// transport is that of a plain route: no endpoint has a name, so all share it.
func (r *Route) transport() *http.Transport {
	return r.Targets[0].pool.endpoints[0].transports[r.times]
}

// turns are the addresses of the endpoints of a plain route, in the order of their turns.
func (r *Route) turns() []string {
	p := r.Targets[0].pool
	found := []string{}
	for _, at := range p.order {
		found = append(found, p.endpoints[at].address)
	}
	return found
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

func noteAnswer(reply *http.Response) error {
	c := reply.Request.Context().Value(connKey).(*conn)
	c.took = since(c.began)
	c.status = reply.StatusCode
	c.size = reply.ContentLength
	return nil
}

// newRoute serves the requests of a router.
func newRoute(conf *Config) http.Handler {
	route := conf.Route
	route.matched, route.prefix = conf.Matched, conf.Prefix
	if conf.Bare && route.asksLittle() {
		return newProxyRoute(conf)
	}
	return newHandlerRoute(conf)
}

// newProxyRoute serves the requests of a route that asks for nothing but a pool: a native proxy, of which no more than the
// Director is interpreted. What is not plain fails there on purpose, and its ErrorHandler serves it.
func newProxyRoute(conf *Config) http.Handler {
	route := conf.Route
	one := &httputil.ReverseProxy{FlushInterval: flushInterval}
	lendTo(one)
	var e *edge
	var places, dropped []string // places in the order of their turns
	scheme, place := "", ""
	serial := -1 // of no edge: no request is plain
	shared, many, turn := false, uint32(1), new(uint32)
	care := asksCare
	addUnlinked(conf.Listener, func(above *edge, used map[string]*pool) error {
		if err := route.prepare(used); err != nil {
			return err
		}
		e = above
		if above.conf.Underscores { // one by one: the interpreter confuses assignments to several of these variables
			care = asksLessCare
		}
		dropped = above.dropped()
		if route.isPlain() {
			places = route.turns()
			place = places[0]
			many = uint32(len(places))
			shared = len(places) > 1
			one.Transport = route.transport()
			scheme = route.scheme()
			serial = above.serial
		}
		return nil
	})
	one.Director = func(r *http.Request) {
		h := r.Header
		isOdd := true // unless it is plain: see plainOn
		c, known := r.Context().Value(connKey).(*conn)
		if known && c.by == serial {
			head := c.buffer[:*c.end]
			if ends(head, c.rest) {
				isOdd = !isPlainLine(head[:len(head)-len(c.rest)])
			} else {
				isOdd = !c.learns(r, head, care)
			}
		}
		if isOdd {
			if !admitted(r, serial) {
				return
			}
			h = r.Header
		}
		h["Connection"] = dropped   // Go's proxy drops what it names
		h["X-Forwarded-For"] = none // which it would write
		reply := *c.answer
		reply.header["Content-Type"] = none // an answer without one stays so
		to := r.URL
		to.Scheme = scheme
		to.Host = place
		if shared {
			to.Host = places[next(turn, 1)%many]
		}
		if again[r.Method] {
			r.Body = noBody
			r.TransferEncoding = identity
		}
	}
	one.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
		if r.URL.Scheme != passed {
			route.failPlain(e, w, r, err)
			return
		}
		if serial < 0 || r.Context().Value(stateKey) != nil {
			_ = route.remaining(e, w, r, false)
			return
		}
		done := make(chan any, 1)
		go route.begin(e, one, w, r, done)
		if failure := <-done; failure != nil {
			panic(failure)
		}
	}
	return one
}

// begin serves a request that may be the first plain one of its connection, beside the connection's goroutine: twice through
// a proxy takes a stack twice as large as once, which an idle connection would keep until the next collection of garbage.
func (r *Route) begin(e *edge, one *httputil.ReverseProxy, w http.ResponseWriter, given *http.Request, done chan any) {
	defer func() { done <- recover() }()
	if e.meets(w, given) {
		one.ServeHTTP(w, requestOf(w)) // a second way through Traefik's routers would lead here
	} else {
		_ = r.remaining(e, w, given, false)
	}
}

func (r *Route) failPlain(e *edge, w http.ResponseWriter, given *http.Request, err error) {
	s := &state{edge: e, route: r}
	s.fail(w, given, err)
}

// passed is the scheme of a request that a transport refuses.
const passed = "lbgen"

// admitted makes a request for Traefik's matchers the one that it stands for, if that is plain. Any other fails on purpose.
func admitted(r *http.Request, serial int) bool {
	s, known := r.Context().Value(stateKey).(*state)
	if known && s.plain && s.edge.serial == serial {
		r.URL = s.request.URL
		r.Host = s.request.Host
		r.Header = s.request.Header.Clone()
		return true
	}
	r.URL.Scheme = passed
	r.Header = http.Header{} // no upgrade, which Go's proxy would look at first
	r.Body = nil             // which a transport before Go 1.26 closes when it refuses
	return false
}

// newHandlerRoute serves the requests of a route that asks for more, of a listener that adds to them or has a log, or with
// an idle time of its own.
func newHandlerRoute(conf *Config) http.Handler {
	route := conf.Route
	var e *edge
	var to *log // nil for none
	var one *httputil.ReverseProxy
	var places, texts, proto, port, dropped []string // places and texts in the order of turns
	scheme := ""                                     // of the endpoints
	serial := -1                                     // of no edge: no request is plain
	tells, names := false, false
	shared, many, turn := false, uint32(1), new(uint32)
	step := time.Duration(0)
	care := asksCare
	addUnlinked(conf.Listener, func(above *edge, used map[string]*pool) error {
		if err := route.prepare(used); err != nil {
			return err
		}
		e = above
		tells = above.conf.Forwarded // one by one: the interpreter confuses assignments to several of these variables
		names = above.conf.RequestID
		if above.conf.Underscores {
			care = asksLessCare
		}
		proto = above.scheme
		port = above.port
		dropped = above.dropped()
		if conf.Timed {
			step = time.Duration(route.Idle) * time.Millisecond / steps
		}
		if route.isPlain() {
			one = above.newProxy(route)
			places = route.turns()
			many = uint32(len(places))
			shared = len(places) > 1
			texts = above.logTexts(route, places)
			scheme = route.scheme()
			to = above.log
			serial = above.serial
		}
		return nil
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := r.Header
		isOdd := true // unless it is plain: see plainOn
		c, known := r.Context().Value(connKey).(*conn)
		if known && c.by == serial {
			head := c.buffer[:*c.end]
			if ends(head, c.rest) {
				isOdd = !isPlainLine(head[:len(head)-len(c.rest)])
			} else {
				isOdd = !c.learns(r, head, care)
			}
		}
		if isOdd {
			if r = route.remaining(e, w, r, serial > 0); r == nil {
				return
			}
			h = r.Header
		}
		c.began = now()
		c.status = 0
		c.size = -1
		h["Connection"] = dropped // Go's proxy drops what it names
		id := ""
		if names {
			token := make([]byte, 16)
			_, _ = fill(token)
			id = inHex(token)
			h["X-Request-Id"] = []string{id}
		}
		if tells { // X-Forwarded-For too: Go's proxy writes that
			h["X-Forwarded-Proto"] = proto
			h["X-Forwarded-Port"] = port
			h["X-Forwarded-Host"] = c.hosts
		} else {
			h["X-Forwarded-For"] = none
		}
		w.Header()["Content-Type"] = none // an answer without one stays so
		at := uint32(0)
		if shared {
			at = next(turn, 1) % many
		}
		url := r.URL
		url.Scheme = scheme
		url.Host = places[at]
		var silence *time.Timer
		if step > 0 {
			silence = watchAnswer(w, step)
		}
		defer func() {
			failure := recover()
			if failure != nil {
				c.size = -1 // not what the endpoint said
			}
			if silence != nil {
				silence.Stop()
			}
			if to != nil {
				if c.size < 0 {
					c.measure(w)
				}
				if r.Method == "HEAD" {
					c.size = 0
				}
				to.lock.Lock()
				_, _ = fmt.Fprintf(to.to, plainLine, c.began.UTC().Format(logTime), texts[at], r.Method, r.Host, url.Path, c.status,
					float64(since(c.began))/1e6, float64(c.took)/1e6, c.size, id)
				if !to.waiting {
					to.flushSoon()
				}
				to.lock.Unlock()
			}
			if failure != nil {
				e.broken(w, failure)
			}
		}()
		one.ServeHTTP(w, r)
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
		if s.edge != nil { // else it is no client's: see findAbsentKeys
			r.serve(w, s)
		}
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
