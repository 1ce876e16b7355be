package lbgen

import (
	"bytes"
	"context"
	"io"
	"math/rand"
	"net/http"
	"sync/atomic"
	"time"
)

// mostCopies are under way at a time; a mirror that is slower than its source loses some.
const mostCopies = 1000

var copies int32

// mirror sends copies of a request that is ready to go.
func (s *state) mirror(r *http.Request) {
	if s.bodied && !s.complete {
		return // larger than what is copied
	}
	for _, each := range s.route.Mirrors {
		if rand.Intn(10000) >= each.Percent {
			continue
		}
		if atomic.AddInt32(&copies, 1) > mostCopies {
			atomic.AddInt32(&copies, -1)
			continue
		}
		s.copy(r, each.pool)
	}
}

// copy sends a copy to a pool; a function, since the interpreter shares the variables of a loop among its goroutines.
func (s *state) copy(r *http.Request, to *pool) {
	passed := &state{edge: s.edge, route: s.route, pool: to, q: s.q, peer: s.peer, from: s.from, target: s.target, bodied: s.bodied}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	twin := r.Clone(context.WithValue(ctx, stateKey, passed))
	go passed.send(twin, s.held, cancel)
}

// send gives a copy to an endpoint and drops what comes of it.
func (s *state) send(r *http.Request, body []byte, cancel context.CancelFunc) {
	defer atomic.AddInt32(&copies, -1)
	defer cancel()
	chosen := s.pool.take(r.Context(), s)
	if chosen == nil {
		return
	}
	defer s.pool.leave(chosen)
	if r.URL.Host = chosen.place(); r.URL.Host == "" {
		return
	}
	if s.pool.conf.TLS == nil {
		r.URL.Scheme = "http"
	} else {
		r.URL.Scheme = "https"
	}
	if s.bodied {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if reply, err := chosen.transports[s.route.times].RoundTrip(r); err == nil {
		_, _ = io.Copy(io.Discard, reply.Body)
		_ = reply.Body.Close()
	}
}
