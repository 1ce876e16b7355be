package lbgen

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// watch ends a request after a silence.
type watch struct {
	silence time.Duration
	end     func()
	timer   *time.Timer
	over    int32
}

func newWatch(milliseconds int, end func()) *watch {
	return &watch{silence: time.Duration(milliseconds) * time.Millisecond, end: end}
}

func (w *watch) start() {
	if w.timer != nil {
		w.timer.Reset(w.silence)
		return
	}
	w.timer = time.AfterFunc(w.silence, func() {
		atomic.StoreInt32(&w.over, 1)
		w.end()
	})
}

func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (w *watch) expired() bool { return atomic.LoadInt32(&w.over) == 1 }

// steps is how often a silence is looked for within an idle time.
const steps = 8

// silences looks for silent answers on the connections of a listener, which are known from their first plain request on; a
// request costs nothing.
type silences struct {
	by    int // the serial number of its edge
	lock  sync.Mutex
	known map[*conn]*silence
}

type silence struct {
	writer http.ResponseWriter
	size   int64
	steps  int // without a byte
}

func watchSilences(ctx context.Context, by int, step time.Duration) *silences {
	s := &silences{by: by, known: map[*conn]*silence{}}
	go func() {
		ticker := time.NewTicker(step)
		defer ticker.Stop()
		for ctx.Err() == nil || len(s.known) > 0 {
			<-ticker.C
			s.look()
		}
	}()
	return s
}

func (s *silences) add(c *conn) {
	s.lock.Lock()
	if _, known := s.known[c]; !known {
		s.known[c] = &silence{}
	}
	s.lock.Unlock()
}

func (s *silences) look() {
	s.lock.Lock()
	defer s.lock.Unlock()
	for c, each := range s.known {
		if c.by != s.by || c.state() >= http.StateHijacked {
			delete(s.known, c)
		} else {
			each.look(c.current())
		}
	}
}

func (s *silence) look(w http.ResponseWriter) {
	if w == nil {
		s.writer = nil
		return
	}
	status, size := sent(w)
	if w != s.writer || size != s.size || status == 0 {
		s.writer = w
		s.size = size
		s.steps = 0
		return
	}
	s.steps++
	if s.steps >= steps {
		endSilence(w)
	}
}

// endSilence ends a request, and writing to a client that does not read.
func endSilence(w http.ResponseWriter) {
	silent := http.NewResponseController(w)
	_ = silent.SetReadDeadline(time.Now()) // ends the request's context
	_ = silent.SetWriteDeadline(time.Now())
}

// watchedBody is a body whose silences are watched.
type watchedBody struct {
	body  io.ReadCloser
	watch *watch
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.watch.timer.Reset(b.watch.silence)
	n, err := b.body.Read(p)
	if err != nil {
		b.watch.timer.Stop()
	}
	return n, err
}

func (b *watchedBody) Close() error {
	return b.body.Close()
}

// clientBody is a client's body. A read that takes too long is the client's silence; too long a time between two reads
// is that of an endpoint which stopped reading.
type clientBody struct {
	body  io.ReadCloser
	state *state
	watch *watch // between reads, nil for none
	slow  *watch // of each read, nil for none
}

func (b *clientBody) Read(p []byte) (int, error) {
	if b.watch != nil {
		b.watch.stop()
	}
	if b.slow != nil {
		b.slow.start()
	}
	n, err := b.body.Read(p)
	if b.slow != nil {
		b.slow.stop()
	}
	if err == io.EOF {
		b.state.whole = true
	} else if err != nil {
		b.state.broken = true
	} else if b.watch != nil {
		b.watch.start()
	}
	return n, err
}

func (b *clientBody) Close() error {
	return b.body.Close()
}

// tunnel puts a watched pair of pipes between an upgraded connection and the reverse proxy.
func tunnel(body io.ReadCloser, milliseconds int) io.ReadCloser {
	back, ok := body.(io.ReadWriteCloser)
	if !ok {
		return body
	}
	near, far := net.Pipe()
	end := func() {
		_ = near.Close() // for Go's proxy an error: after an end it would wait for the client's as well
		_ = back.Close()
		_ = far.Close()
	}
	w := newWatch(milliseconds, end)
	w.start()
	go pump(far, back, w, end)
	go pump(back, far, w, end)
	return near
}

func pump(to io.Writer, from io.Reader, w *watch, end func()) {
	buffer := make([]byte, 32*1024)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			w.start()
			if _, failure := to.Write(buffer[:n]); failure != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	w.stop()
	end()
}
