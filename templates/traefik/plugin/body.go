package lbgen

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// How much of a body is read ahead: to send it again, to send a copy, because the route says so.
const (
	againMost  = 16 * 1024
	mirrorMost = 64 * 1024
	bufferMost = 1024 * 1024
	replyMost  = 256 * 1024
)

// hold reads the body ahead as far as the route needs it.
func (s *state) hold(r *http.Request) error {
	most := 0
	if s.route.Retries != nil {
		most = againMost
	}
	if len(s.route.Mirrors) > 0 {
		most = mirrorMost
	}
	if s.route.Body != nil && s.route.Body.Request {
		most = bufferMost
	}
	s.rest = r.Body
	if most == 0 {
		return nil
	}
	held, err := io.ReadAll(io.LimitReader(r.Body, int64(most)+1))
	if err != nil {
		return err
	}
	s.held = held
	s.complete = len(held) <= most
	if !s.complete {
		s.rest = io.MultiReader(bytes.NewReader(held), r.Body)
	}
	return nil
}

// repeats is whether the body may be sent again: it is short, or the route holds it anyway.
func (s *state) repeats() bool {
	whole := s.route.Body != nil && s.route.Body.Request
	return s.complete && (whole || len(s.held) <= againMost)
}

// body is the body for a try; closing it leaves the client's open for the next one.
func (s *state) body() io.ReadCloser {
	if s.complete {
		return io.NopCloser(bytes.NewReader(s.held))
	}
	return io.NopCloser(s.rest)
}

// ownPath puts a target that begins with two slashes into the parts of a URL.
func ownPath(to *url.URL, target string) {
	path, query, asked := strings.Cut(target, "?")
	to.Opaque = ""
	to.RawQuery = query
	to.ForceQuery = asked && query == ""
	to.RawPath = path
	to.Path = path
	if plain, err := url.PathUnescape(path); err == nil {
		to.Path = plain
	}
}

// pipe holds what an endpoint sent until the client took it, up to replyMost bytes.
type pipe struct {
	lock  sync.Mutex
	moved *sync.Cond
	data  bytes.Buffer
	err   error
	shut  bool
	body  io.ReadCloser
}

// buffered reads a body as fast as it comes.
func buffered(body io.ReadCloser) io.ReadCloser {
	p := &pipe{body: body}
	p.moved = sync.NewCond(&p.lock)
	go p.fill()
	return p
}

func (p *pipe) fill() {
	chunk := make([]byte, 32*1024)
	for {
		n, err := p.body.Read(chunk)
		p.lock.Lock()
		for p.data.Len() > replyMost-n && p.data.Len() > 0 && !p.shut {
			p.moved.Wait()
		}
		_, _ = p.data.Write(chunk[:n])
		p.err = err
		over := err != nil || p.shut
		p.moved.Broadcast()
		p.lock.Unlock()
		if over {
			return
		}
	}
}

// Read gives what is there, and waits while nothing is.
func (p *pipe) Read(to []byte) (int, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	for p.data.Len() == 0 && p.err == nil {
		p.moved.Wait()
	}
	if p.data.Len() == 0 {
		return 0, p.err
	}
	n, _ := p.data.Read(to)
	p.moved.Broadcast()
	return n, nil
}

// Close ends the reading.
func (p *pipe) Close() error {
	p.lock.Lock()
	p.shut = true
	p.moved.Broadcast()
	p.lock.Unlock()
	return p.body.Close()
}
