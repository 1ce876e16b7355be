package lbgen

import (
	"io"
	stdlog "log"
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
// when a connection breaks; the coding keeps Go from trying to read it first. A Director sets them, since the proxy hides what
// the body is before.
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

// isPlain is whether requests of a route without a body can go the short way: it asks for nothing but a pool.
func (r *Route) isPlain() bool {
	asks := r.guarded || r.chosen || r.changed || r.answered || r.Body != nil || r.Retries != nil || r.Total > 0 || len(r.Mirrors) > 0
	if len(r.Targets) == 0 || asks {
		return false
	}
	p := r.Targets[0].pool
	return p.simple && p.conf.Proxy == "" && (p.conf.Balance == "round_robin" || len(p.endpoints) == 1) && len(p.order) > 0
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

// flushInterval is how long what came of an answer may wait for more.
const flushInterval = 20 * time.Millisecond

// breaks is where Go's proxy logs that an answer broke off, before it ends the request by a panic with which net/http drops what
// it holds of the answer. Until the flush that is due has sent that, the request waits.
type breaks struct{}

func (*breaks) Write(line []byte) (int, error) {
	time.Sleep(2 * flushInterval)
	return len(line), nil
}

// awaitFlush sets that log, the one within the type of its own that the interpreter gives for a logger.
func awaitFlush(proxy *httputil.ReverseProxy) {
	made := stdlog.New(&breaks{}, "", 0)
	reflect.ValueOf(proxy).Elem().FieldByName("ErrorLog").Set(reflect.ValueOf(open(reflect.ValueOf(made).Elem().Field(0))))
}

func noteAnswer(reply *http.Response) error {
	c := reply.Request.Context().Value(connKey).(*conn)
	c.took = since(c.began)
	c.status = reply.StatusCode
	c.size = reply.ContentLength
	own := *c.answer
	own.header["Content-Type"] = none
	return nil
}

// newRoute serves the requests of a router by a native proxy, of which no more than the Director is interpreted. What is not
// plain fails there on purpose, and its ErrorHandler serves it.
func newRoute(conf *Config) http.Handler {
	route := conf.Route
	route.matched, route.prefix = conf.Matched, conf.Prefix
	one := &httputil.ReverseProxy{FlushInterval: flushInterval}
	lendTo(one)
	awaitFlush(one)
	var e *edge
	var places, texts, proto, port, dropped []string // places and texts in the order of turns
	scheme := ""                                     // of the endpoints
	serial := -1                                     // of no edge: no request is plain
	isForwarded, hasID := false, false
	shared, many, turn := false, uint32(1), new(uint32)
	patience := 0
	care := asksCare
	addUnlinked(conf.Listener, func(above *edge, used map[string]*pool) error {
		if err := route.prepare(used); err != nil {
			return err
		}
		e = above
		isForwarded = above.conf.Forwarded // one by one: the interpreter confuses assignments to several of these variables
		hasID = above.conf.RequestID
		if above.conf.Underscores {
			care = asksLessCare
		}
		proto = above.scheme
		port = above.port
		dropped = above.dropped()
		patience = above.patience(route)
		if route.isPlain() {
			places = route.turns()
			many = uint32(len(places))
			shared = len(places) > 1
			one.Transport = route.transport()
			scheme = route.scheme()
			serial = above.serial
		}
		if serial > 0 && above.log != nil {
			texts = above.logTexts(route, places)
			one.ModifyResponse = noteAnswer
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
				// A client may have hidden fields before what is in the buffer (see wholly): then there are more, or some of these
				// have a second value, of which only a Connection's would matter.
				first := head[:len(head)-len(c.rest)]
				isOdd = !isPlainLine(first) || string(first) != r.Method+" "+r.RequestURI+" HTTP/1.1" || len(h) != c.fields ||
					len(h["Connection"]) > 1 || r.ContentLength != 0
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
		c.patience = patience
		h["Connection"] = dropped // Go's proxy drops what it names
		if hasID {
			token := make([]byte, 16)
			_, _ = fill(token)
			c.id = inHex(token)
			h["X-Request-Id"] = []string{c.id}
		}
		if isForwarded { // X-Forwarded-For too: Go's proxy writes that
			h["X-Forwarded-Proto"] = proto
			h["X-Forwarded-Port"] = port
			h["X-Forwarded-Host"] = c.hosts
		} else {
			h["X-Forwarded-For"] = none
		}
		if texts == nil { // else noteAnswer does it: after a 1xx response it would be forgotten
			reply := *c.answer
			reply.header["Content-Type"] = none // an answer without one stays so
		}
		at := uint32(0)
		if shared {
			at = next(turn, 1) % many
		}
		to := r.URL
		to.Scheme = scheme
		to.Host = places[at]
		if texts != nil {
			c.text = texts[at]
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
			route.remaining(e, w, r)
			return
		}
		done := make(chan any, 1)
		go route.begin(e, one, w, r, done)
		if failure := <-done; failure != nil { // not to be raised again: the interpreter would wrap it
			r.Context().Value(connKey).(*conn).size = -1 // not what the endpoint said
			e.broken(w, failure)
		}
	}
	if conf.Bare {
		return one
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, known := r.Context().Value(connKey).(*conn)
		if !known || texts == nil || r.ContentLength != 0 || r.ProtoMajor != 1 {
			route.remaining(e, w, r)
			return
		}
		c.began = now()
		c.status = 0
		c.size = -1
		c.text = "" // until it is plain
		c.id = ""
		defer func() {
			failure := recover()
			if c.text != "" {
				if r.Host == "" { // made for Traefik's matchers
					r = original(w)
				}
				if failure != nil || c.size < 0 {
					c.measure(w)
				}
				e.log.writePlain(c, r)
			}
			if failure != nil {
				e.broken(w, failure)
			}
		}()
		one.ServeHTTP(w, r)
	})
}

// begin serves a request that may be the first plain one of its connection, beside the connection's goroutine: twice through
// a proxy takes a stack twice as large as once, which an idle connection would keep until the next collection of garbage.
func (r *Route) begin(e *edge, one *httputil.ReverseProxy, w http.ResponseWriter, given *http.Request, done chan any) {
	defer func() { done <- recover() }()
	if e.meets(w, given) {
		one.ServeHTTP(w, original(w)) // a second way through Traefik's routers would lead here
	} else {
		r.remaining(e, w, given)
	}
}

func (r *Route) failPlain(e *edge, w http.ResponseWriter, given *http.Request, err error) {
	s := &state{edge: e, route: r}
	s.fail(w, given, err)
	if s.left {
		given.Context().Value(connKey).(*conn).status = clientLeft
	}
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

// remaining serves a request that is not plain, or to the route is not.
func (r *Route) remaining(e *edge, w http.ResponseWriter, given *http.Request) {
	s, known := given.Context().Value(stateKey).(*state)
	if known && !s.plain {
		if s.edge != nil { // else it is no client's: see findAbsentKeys
			r.serve(w, s)
		}
		return
	}
	from := original(w)
	if known || plainOn(from, e.serial, e.conf.Underscores) != nil {
		r.serveFrom(e, w, from)
	} else {
		e.serveOdd(w, from)
	}
}

// serveFrom serves a request that is plain to its edge, but not to the route.
func (r *Route) serveFrom(e *edge, w http.ResponseWriter, from *http.Request) {
	s := e.stateOf(from)
	if e.log != nil {
		defer e.log.write(e, w, from, &entry{began: time.Now(), target: from.RequestURI, state: s})
	}
	r.serve(w, s)
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
