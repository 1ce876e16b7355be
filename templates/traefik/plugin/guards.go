package lbgen

import "net/http"

// guard is what a route asks before its action.
type guard struct {
	gate   *gate
	rates  *rates
	counts *counts
}

func newGuard(route *Route) (*guard, error) {
	if route.Rate != nil && route.Rate.Key.Kind == "header" {
		route.Rate.Key.Name = http.CanonicalHeaderKey(route.Rate.Key.Name)
	}
	if route.Concurrency != nil && route.Concurrency.Key.Kind == "header" {
		route.Concurrency.Key.Name = http.CanonicalHeaderKey(route.Concurrency.Key.Name)
	}
	found := &guard{rates: useRates(route), counts: useCounts(route)}
	var err error
	found.gate, err = newGate(route.Access)
	limited := route.Body != nil && route.Body.Limited
	route.guarded = found.gate != nil || found.rates != nil || found.counts != nil || limited || route.Cors != nil ||
		route.Compression != nil
	return found, err
}

// passes is whether the request goes on; if not it was answered. A request that counts leaves a key in the state.
func (g *guard) passes(w http.ResponseWriter, r *http.Request, s *state, from *arrival) bool {
	route := s.route
	s.address = from.peer
	if from.trust {
		s.address = s.edge.clientOf(from, r.Header)
	}
	if route.Cors != nil {
		s.origin = route.Cors.allowed(r.Header["Origin"])
	}
	if g.gate != nil && !g.gate.admits(s.address) {
		s.answer(w, r, http.StatusForbidden)
		return false
	}
	if route.Cors != nil && isPreflight(r) {
		s.origin = route.Cors.preflight(w.Header(), r)
		s.finish(w, r, http.StatusNoContent, "")
		return false
	}
	if g.rates != nil {
		if key, known := s.keyOf(route.Rate.Key); known && !g.rates.admits(key) {
			s.answer(w, r, http.StatusTooManyRequests)
			return false
		}
	}
	if route.Body != nil && route.Body.Limited && r.ContentLength > int64(route.Body.Max) {
		s.answer(w, r, http.StatusRequestEntityTooLarge)
		return false
	}
	if g.counts != nil {
		if key, known := s.keyOf(route.Concurrency.Key); known {
			if !g.counts.enter(key, route.Concurrency.Max) {
				s.answer(w, r, http.StatusTooManyRequests)
				return false
			}
			s.counted = true
			s.countKey = key
		}
	}
	if route.Compression != nil {
		s.gzip = takesGzip(r.Header["Accept-Encoding"])
	}
	return true
}
