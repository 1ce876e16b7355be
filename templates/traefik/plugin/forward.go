package lbgen

import (
	"context"
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

// trip is what the proxy of a plain request notes for the access log.
type trip struct {
	answered time.Time
	left     bool // the client went before there was an answer
}

// tripKey is where a request's context holds it.
const tripKey = "lbgen.trip"

// bufferPool lends buffers to copy answers with.
type bufferPool struct{ pool *sync.Pool }

var buffers = &bufferPool{pool: &sync.Pool{New: func() any { return make([]byte, 32*1024) }}}

// Get lends one.
func (b *bufferPool) Get() []byte { return b.pool.Get().([]byte) }

// Put takes it back.
func (b *bufferPool) Put(lent []byte) { b.pool.Put(lent) }

// isPlain is whether requests of a route without a body can go the short way.
func (r *Route) isPlain() bool {
	if len(r.Targets) != 1 || r.chosen || r.changed || r.answered || r.guarded || r.Total > 0 || r.Retries != nil ||
		len(r.Mirrors) > 0 {
		return false
	}
	p := r.Targets[0].pool
	return p.simple && p.conf.Proxy == "" && (p.conf.Balance == "round_robin" || len(p.endpoints) == 1) && len(p.order) > 0
}

// proxies are native proxies for a pool's endpoints.
func (e *edge) proxies(route *Route) []*httputil.ReverseProxy {
	p := route.Targets[0].pool
	scheme := "http"
	if p.conf.TLS != nil {
		scheme = "https"
	}
	failed := func(w http.ResponseWriter, r *http.Request, err error) {
		s := &state{edge: e, route: route}
		s.fail(w, r, err)
		if noted, logged := r.Context().Value(tripKey).(*trip); logged {
			noted.answered = time.Now()
			noted.left = s.left
		}
	}
	made := []*httputil.ReverseProxy{}
	for _, each := range p.endpoints {
		one := &httputil.ReverseProxy{
			Director:      director(scheme, each.address),
			Transport:     each.transports[route.times],
			FlushInterval: 100 * time.Millisecond,
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
	reply.Request.Context().Value(tripKey).(*trip).answered = time.Now()
	return nil
}

// newRoute serves the requests of a router.
func newRoute(conf *Config) http.Handler {
	route := conf.Route
	route.matched, route.prefix = conf.Matched, conf.Prefix
	var e *edge
	var proxies []*httputil.ReverseProxy
	var turns []int
	var texts, scheme, port []string
	tells, names, logged, short := false, false, false, false
	turn := new(uint32)
	step := time.Duration(0)
	addUnlinked(conf.Listener, func(above *edge, used map[string]*pool) error {
		if err := route.prepare(used); err != nil {
			return err
		}
		e = above
		tells = above.conf.Forwarded // one by one: the interpreter confuses assignments to several of these variables
		names = above.conf.RequestID
		logged = above.log != nil
		scheme = above.scheme
		port = above.port
		if route.isPlain() {
			p := route.Targets[0].pool
			proxies = e.proxies(route)
			turns = p.order
			texts = e.logTexts(route, p)
			step = time.Duration(route.Idle) * time.Millisecond / 4
			short = true
		}
		return nil
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Scheme != "" || !short {
			if r = route.remaining(e, w, r, short); r == nil {
				return
			}
		}
		h := r.Header
		if r.ContentLength != 0 || r.ProtoMajor != 1 || h["Upgrade"] != nil || h["Connection"] != nil || h["Pragma"] != nil ||
			h["Proxy-Authorization"] != nil || h["Proxy-Authenticate"] != nil {
			route.serveFrom(e, w, r)
			return
		}
		began := time.Time{}
		if logged {
			began = time.Now()
		}
		delete(h, "Te") // of which Go's proxy would leave something
		id := ""
		if names {
			id = newID()
			h["X-Request-Id"] = []string{id}
		} else {
			delete(h, "X-Request-Id")
		}
		if tells {
			delete(h, "X-Forwarded-For") // Go's proxy writes it
			h["X-Forwarded-Proto"] = scheme
			h["X-Forwarded-Port"] = port
			h["X-Forwarded-Host"] = []string{r.Host}
		} else {
			h["X-Forwarded-For"] = nil // Go's proxy writes none
			delete(h, "X-Forwarded-Proto")
			delete(h, "X-Forwarded-Port")
			delete(h, "X-Forwarded-Host")
		}
		w.Header()["Content-Type"] = nil // an answer without one stays so
		to := 0
		if len(turns) > 1 {
			to = turns[int(atomic.AddUint32(turn, 1))%len(turns)]
		}
		var silence *time.Timer
		if step > 0 {
			silence = watchAnswer(w, step)
		}
		var noted *trip
		if logged {
			noted = &trip{}
			r = r.WithContext(context.WithValue(r.Context(), tripKey, noted))
		}
		defer func() {
			failure := recover()
			if silence != nil {
				silence.Stop()
			}
			if logged {
				e.log.plain(w, r, began, noted, texts[to], id)
			}
			if failure != nil && (failure != http.ErrAbortHandler || !e.cut(w)) {
				panic(failure)
			}
		}()
		proxies[to].ServeHTTP(w, r)
	})
}

// remaining serves a request that is not plain, and gives one that is after all as it was.
func (r *Route) remaining(e *edge, w http.ResponseWriter, passed *http.Request, short bool) *http.Request {
	s, known := passed.Context().Value(stateKey).(*state)
	if !known {
		r.serveFrom(e, w, passed)
		return nil
	}
	if short && s.plain {
		return s.request
	}
	if s.plain {
		r.serveFrom(e, w, s.request)
		return nil
	}
	r.serve(w, s)
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

// watchAnswer ends the client's connection when for four steps nothing of an answer that began has come through.
func watchAnswer(w http.ResponseWriter, step time.Duration) *time.Timer {
	var timer *time.Timer
	steps, before := 0, int64(0)
	timer = time.AfterFunc(step, func() {
		status, size := sent(w)
		if status == 0 || size != before {
			steps, before = 0, size
		} else if steps++; steps >= 4 {
			silent := http.NewResponseController(w)
			_ = silent.SetReadDeadline(time.Now()) // ends the request's context
			_ = silent.SetWriteDeadline(time.Now())
			return
		}
		timer.Reset(step)
	})
	return timer
}
