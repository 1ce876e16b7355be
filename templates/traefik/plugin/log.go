package lbgen

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"
)

// flushEvery is how long a line may wait in memory.
const flushEvery = 200 * time.Millisecond

// logs are the process's access logs, by the names of their files.
var (
	logsLock sync.Mutex
	logs     = map[string]*log{}
)

type log struct {
	lock    sync.Mutex
	to      *bufio.Writer
	waiting bool
}

// entry is what is known of a request while it is served.
type entry struct {
	began  time.Time
	target string
	state  *state
}

// line is one request; README, "Access log", says what each field means.
type line struct {
	Time      string   `json:"time"`
	Listener  string   `json:"listener"`
	Route     string   `json:"route"`
	Pool      string   `json:"pool"`
	Endpoint  string   `json:"endpoint"`
	Method    string   `json:"method"`
	Host      string   `json:"host"`
	Path      string   `json:"path"`
	Status    int      `json:"status"`
	Duration  float64  `json:"duration_ms"`
	Upstream  *float64 `json:"upstream_ms"`
	Tries     int      `json:"tries"`
	Bytes     int64    `json:"bytes"`
	RequestID string   `json:"request_id"`
}

func useLog(files string) (*log, error) {
	if files == "" {
		return nil, nil
	}
	logsLock.Lock()
	defer logsLock.Unlock()
	if found := logs[files]; found != nil {
		return found, nil
	}
	to := []io.Writer{}
	for _, file := range strings.Split(files, ",") {
		opened, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
		if err != nil {
			return nil, err
		}
		to = append(to, opened)
	}
	logs[files] = &log{to: bufio.NewWriterSize(io.MultiWriter(to...), 64*1024)}
	return logs[files], nil
}

// write adds the line of a request that is over.
func (l *log) write(e *edge, w http.ResponseWriter, r *http.Request, known *entry) {
	now := time.Now()
	found := &line{
		Time:     known.began.UTC().Format(logTime),
		Listener: e.conf.Listener,
		Method:   r.Method,
		Host:     r.Host,
		Path:     known.target,
		Duration: milliseconds(now.Sub(known.began)),
	}
	if at := strings.IndexByte(found.Path, '?'); at >= 0 {
		found.Path = found.Path[:at]
	}
	if lines := r.Header["X-Request-Id"]; len(lines) > 0 && (known.state != nil && known.state.tries > 0 || e.trusts(peerOf(r.RemoteAddr))) {
		found.RequestID = lines[0]
	} else if e.conf.RequestID {
		found.RequestID = newID()
	}
	found.Status, found.Bytes = sent(w)
	if r.Method == http.MethodHead {
		found.Bytes = 0
	}
	if s := known.state; s != nil {
		if s.left {
			found.Status = 0
			found.Bytes = 0
		}
		found.Host = s.host
		if s.route != nil {
			found.Route = s.route.Name
		}
		found.Tries = s.tries
		found.Endpoint = s.place
		if s.pool != nil {
			found.Pool = s.pool.conf.Name
		}
		if s.tries > 0 {
			if s.answered.IsZero() {
				s.answered = now
			}
			took := milliseconds(s.answered.Sub(s.asked))
			found.Upstream = &took
		}
	}
	text, err := json.Marshal(found)
	if err != nil {
		return
	}
	l.lock.Lock()
	_, _ = l.to.Write(append(text, '\n'))
	if !l.waiting {
		l.flushSoon()
	}
	l.lock.Unlock()
}

// flushSoon is called with the lock.
func (l *log) flushSoon() {
	l.waiting = true
	time.AfterFunc(flushEvery, func() {
		l.lock.Lock()
		l.waiting = false
		_ = l.to.Flush()
		l.lock.Unlock()
	})
}

// logTime is how a line gives a time.
const logTime = "2006-01-02T15:04:05.000Z"

// plainLine is the line of a plain request; nothing in its texts has to be escaped.
const plainLine = `{"time":"%s",%s,"method":"%s","host":"%s","path":"%s","status":%d,"duration_ms":%.3f,"upstream_ms":%.3f,"tries":1,"bytes":%d,"request_id":"%s"}` + "\n"

// logTexts are the parts of a line that are the same for all requests of a route to an endpoint, by address.
func (e *edge) logTexts(route *Route, places []string) []string {
	found := []string{}
	for _, place := range places {
		known := map[string]string{"listener": e.conf.Listener, "route": route.Name, "pool": route.Targets[0].Pool, "endpoint": place}
		text, _ := json.Marshal(known)
		found = append(found, string(text[1:len(text)-1]))
	}
	return found
}

// clientLeft is the status of a plain request whose client went before there was an answer.
const clientLeft = -1

// measure finds what a plain request's answer was when the endpoint did not say.
func (c *conn) measure(w http.ResponseWriter) {
	c.size = reflect.ValueOf(w).Elem().Field(atWritten).Int()
	if c.status > 0 {
		return
	}
	c.took = since(c.began)
	if c.status != clientLeft {
		c.status, _ = sent(w)
	} else {
		c.status = 0
	}
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Microseconds()) / 1000
}
