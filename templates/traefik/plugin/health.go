package lbgen

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"time"
)

// watch begins the pool's active checks; they end with the pool.
func (p *pool) watch() {
	if p.conf.Active == nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	for _, each := range p.endpoints {
		p.begin(ctx, each)
	}
}

// begin is a function, since the interpreter shares the variables of a loop among its goroutines.
func (p *pool) begin(ctx context.Context, each *endpoint) {
	go p.check(ctx, each)
}

// check asks an endpoint how it is, for ever.
func (p *pool) check(ctx context.Context, each *endpoint) {
	conf := p.conf.Active
	timeout := time.Duration(conf.Timeout) * time.Millisecond
	var transport *http.Transport // by itself, as a client would follow redirects
	if conf.Path != "" {
		name := ""
		if each.conf.Lookup {
			name = each.conf.Host
		}
		made, err := p.transport(conf.Timeout, conf.Timeout, name)
		if err != nil {
			return // prepare has reported it
		}
		made.DisableKeepAlives = true // a connection of its own is part of being well
		transport = made
	}
	timer := time.NewTicker(time.Duration(conf.Interval) * time.Millisecond)
	defer timer.Stop()
	for {
		p.count(each, p.ill(ctx, each, transport, timeout))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// ill is why a check fails, empty when it succeeds.
func (p *pool) ill(ctx context.Context, each *endpoint, transport *http.Transport, timeout time.Duration) string {
	conf := p.conf.Active
	place := each.place()
	if place == "" {
		return "its name has no address"
	}
	if conf.Port != "" {
		host, _, _ := net.SplitHostPort(place)
		place = net.JoinHostPort(host, conf.Port)
	}
	if conf.Path == "" {
		dialer := &net.Dialer{Timeout: timeout}
		connection, err := dialer.DialContext(ctx, "tcp", place)
		if err != nil {
			return err.Error()
		}
		_ = connection.Close()
		return ""
	}
	scheme := "http://"
	if p.conf.TLS != nil {
		scheme = "https://"
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	question, err := http.NewRequestWithContext(limited, http.MethodGet, scheme+place+conf.Path, nil)
	if err != nil {
		return err.Error()
	}
	question.Host = net.JoinHostPort(each.conf.Host, each.conf.Port)
	question.Header.Set("User-Agent", "")
	reply, err := transport.RoundTrip(question)
	if err != nil {
		return err.Error()
	}
	_ = reply.Body.Close()
	for _, wanted := range conf.Statuses {
		if reply.StatusCode >= wanted.First && reply.StatusCode <= wanted.Last {
			return ""
		}
	}
	return "status " + strconv.Itoa(reply.StatusCode)
}

// count adds a check's result: so many in a row take the endpoint out or bring it back, and the first of all decides alone.
func (p *pool) count(each *endpoint, ill string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	at := each.at
	well := ill == ""
	if !well {
		at.reason = ill
	}
	first := !at.checked
	at.checked = true
	if first {
		at.since = time.Now()
	}
	if well != at.down {
		at.bad = 0
		return
	}
	at.bad++
	if well && at.bad >= p.conf.Active.Rise {
		at.down = false
		at.bad = 0
		at.failures = 0
		at.back = time.Now()
		at.since = at.back
		p.call(len(p.waiting))
	} else if !well && (first || at.bad >= p.conf.Active.Fall) {
		at.down = true
		at.bad = 0
		at.since = time.Now()
	}
}
