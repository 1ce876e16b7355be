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

// steps is how often silences are looked for within the shortest idle time of a listener's routes.
const steps = 8

// silences looks for answers of a listener that began and bring no more: on connections of HTTP/1, which are known from their
// first request on, so that a plain request costs nothing, and of single requests.
type silences struct {
	by    int // the serial number of its edge
	lock  sync.Mutex
	known map[*silence]bool
}

type silence struct {
	conn     *conn               // whose requests are watched; nil for a single one
	writer   http.ResponseWriter // of the request under way
	body     io.Closer           // of a single one's answer
	patience int                 // so many steps without a byte end it, 0 = it may last
	size     int64
	steps    int
}

// patience is that of a route's requests.
func (e *edge) patience(route *Route) int {
	if route.Idle == 0 {
		return 0
	}
	return (route.Idle*steps + e.conf.Idle - 1) / e.conf.Idle
}

func watchSilences(ctx context.Context, by int, step time.Duration) *silences {
	s := &silences{by: by, known: map[*silence]bool{}}
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

func (s *silences) add(each *silence) {
	s.lock.Lock()
	s.known[each] = true
	s.lock.Unlock()
}

func (s *silences) drop(each *silence) {
	s.lock.Lock()
	delete(s.known, each)
	s.lock.Unlock()
}

func (s *silences) look() {
	s.lock.Lock()
	defer s.lock.Unlock()
	for each := range s.known {
		if c := each.conn; c == nil {
			each.look(each.writer)
		} else if c.by != s.by || c.state() >= http.StateHijacked {
			delete(s.known, each)
		} else {
			each.patience = c.patience
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
	if s.patience > 0 && s.steps >= s.patience {
		s.end()
	}
}

// end ends a request, and writing to a client that does not read.
func (s *silence) end() {
	if s.body != nil {
		_ = s.body.Close()
	}
	silent := http.NewResponseController(s.writer)
	_ = silent.SetReadDeadline(time.Now()) // ends the request's context
	_ = silent.SetWriteDeadline(time.Now())
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
	if b.state.whole { // Go's client reads once more, and may do so when the answer has closed the body: it took that for a failure
		return 0, io.EOF
	}
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

// Close waits over HTTP/1 for a read under way, so that is left to Go's server, which closes the body after the answer.
func (b *clientBody) Close() error {
	if b.state.request.ProtoMajor == 1 {
		return nil
	}
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
