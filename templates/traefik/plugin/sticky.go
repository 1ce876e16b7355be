package lbgen

// stick finds the endpoint that the client's cookie names, in any pool of the route; the pool to ask, or nil.
func (s *state) stick() *pool {
	for _, target := range s.route.Targets {
		sticky := target.pool.conf.Sticky
		if sticky == nil {
			continue
		}
		id, found := cookie(s.q.header["Cookie"], sticky.Cookie)
		if !found || id == "" {
			continue
		}
		if chosen := target.pool.usable(id); chosen != nil {
			s.stuck = chosen
			return target.pool
		}
	}
	return nil
}
