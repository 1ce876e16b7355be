package lbgen

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// What became of a try.
const (
	fine = iota
	refused
	reset
	late
)

// causeOf is why a try failed.
func causeOf(err error) int {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return refused
	}
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		if strings.Contains(err.Error(), "TLS handshake") {
			return refused // it is part of the connect time
		}
		return late
	}
	return reset
}

// judge notes how a try went, and gives the endpoint for the next one when a retry is due; else the try's outcome is
// the request's.
func (p *pool) judge(r *http.Request, s *state, reply *http.Response, err error) *endpoint {
	if r.Context().Err() != nil {
		return nil // the client has gone, or the time for all tries is over
	}
	if s.broken {
		return nil // the client's body is to blame
	}
	cause := fine
	if err != nil {
		cause = causeOf(err)
	}
	status := 0
	if reply != nil {
		status = reply.StatusCode
	}
	if p.conf.Passive != nil {
		p.note(s.chosen, cause != fine || status >= 500)
	}
	retries := s.route.Retries
	if retries == nil || s.tries > retries.Max || !retries.wants(r.Method, cause, status) {
		return nil
	}
	if cause != refused && s.bodied && !s.repeats() {
		return nil
	}
	if s.tried == nil {
		s.tried = map[*endpoint]bool{}
	}
	s.tried[s.chosen] = true
	if retries.Budget >= 0 && !s.retrying && !p.affords(s) {
		return nil
	}
	before := s.chosen
	p.leave(before)
	s.chosen = nil
	next := p.take(r.Context(), s)
	if next == nil { // the outcome stays that of the last try
		p.lock.Lock()
		before.at.active++
		p.lock.Unlock()
		s.chosen = before
	}
	return next
}

// wants is whether a failure, or an endpoint's status, is to be tried again.
func (c *Retries) wants(method string, cause, status int) bool {
	if cause == refused {
		return c.Connect
	}
	if !c.All && !idempotent[method] {
		return false
	}
	if cause == reset {
		return c.Reset
	}
	if cause == late {
		return c.Timeout
	}
	return c.statuses[status]
}

var idempotent = map[string]bool{"GET": true, "HEAD": true, "OPTIONS": true, "PUT": true, "DELETE": true}

// affords is whether the budget has room for one more request that is tried again; it then counts until it ends. One has
// room at any time: a share of few requests would be none at all.
func (p *pool) affords(s *state) bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	active := 0
	for _, each := range p.endpoints {
		active += each.at.active
	}
	if p.retrying > 0 && p.retrying*10000 >= active*s.route.Retries.Budget {
		return false
	}
	p.retrying++
	s.retrying = true
	return true
}

// note counts failures of an endpoint in a row; so many take it out for a while.
func (p *pool) note(chosen *endpoint, bad bool) {
	p.lock.Lock()
	defer p.lock.Unlock()
	at := chosen.at
	if !bad {
		at.failures = 0
		return
	}
	at.failures++
	if at.failures >= p.conf.Passive.Failures {
		at.failures = 0
		at.ejected = time.Now().Add(time.Duration(p.conf.Passive.Eject) * time.Millisecond)
		at.back = at.ejected
	}
}
