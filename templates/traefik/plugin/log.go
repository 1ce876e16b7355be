package lbgen

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
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
	below   io.Writer // its files
	waiting bool
}

// entry is what is known of a request while it is served.
type entry struct {
	began  time.Time
	target string
	state  *state
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
	below := io.MultiWriter(to...)
	logs[files] = &log{to: bufio.NewWriterSize(below, 64*1024), below: below}
	return logs[files], nil
}

// write adds the line of a request that is over.
func (l *log) write(e *edge, w http.ResponseWriter, r *http.Request, known *entry) {
	now := time.Now()
	s := known.state
	if s == nil {
		s = &state{host: r.Host}
	}
	path, _, _ := strings.Cut(known.target, "?")
	id := ""
	if lines := r.Header["X-Request-Id"]; len(lines) > 0 && (s.tries > 0 || e.trusts(peerOf(r.RemoteAddr))) {
		id = lines[0]
	} else if e.conf.RequestID {
		id = newID()
	}
	status, size := sent(w)
	if s.tunnelled {
		status = http.StatusSwitchingProtocols
	}
	if s.left {
		status, size = 0, 0
	}
	if r.Method == http.MethodHead {
		size = 0
	}
	route, pool, took := "", "", "null"
	if s.route != nil {
		route = s.route.Name
	}
	if s.pool != nil {
		pool = s.pool.conf.Name
	}
	if s.tries > 0 {
		if s.answered.IsZero() {
			s.answered = now
		}
		took = strconv.FormatFloat(float64(s.answered.Sub(s.asked))/1e6, 'f', 3, 64)
	}
	l.lock.Lock()
	_, _ = fmt.Fprintf(l.to, oddLine, known.began.UTC().Format(logTime), e.logText(route, pool, s.place), escaped(r.Method),
		escaped(s.host), escaped(path), status, float64(now.Sub(known.began))/1e6, took, s.tries, size, escaped(id))
	if !l.waiting {
		l.flushSoon()
	}
	l.lock.Unlock()
}

// writePlain adds the line of a plain request that is over.
func (l *log) writePlain(c *conn, r *http.Request) {
	if r.Method == "HEAD" {
		c.size = 0
	}
	l.lock.Lock()
	_, _ = fmt.Fprintf(l.to, plainLine, c.began.UTC().Format(logTime), c.text, r.Method, r.Host, r.URL.Path, c.status,
		float64(since(c.began))/1e6, float64(c.took)/1e6, c.size, c.id)
	if !l.waiting {
		l.flushSoon()
	}
	l.lock.Unlock()
}

// escaped is a text as it may stand in a string of JSON.
func escaped(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted[1 : len(quoted)-1])
}

// flushSoon is called with the lock.
func (l *log) flushSoon() {
	l.waiting = true
	time.AfterFunc(flushEvery, func() {
		l.lock.Lock()
		l.waiting = false
		if l.to.Flush() != nil { // a writer that failed once, on a full disk, writes nothing more
			l.to.Reset(l.below)
		}
		l.lock.Unlock()
	})
}

// logTime is how a line gives a time.
const logTime = "2006-01-02T15:04:05.000Z"

// The line of a request; README, "Access log", says what each field means. In the texts of a plain one nothing has to be escaped.
const (
	logStart  = `{"time":"%s",%s,"method":"%s","host":"%s","path":"%s","status":%d,"duration_ms":%.3f,"upstream_ms":`
	logEnd    = `,"bytes":%d,"request_id":"%s"}` + "\n"
	plainLine = logStart + `%.3f,"tries":1` + logEnd
	oddLine   = logStart + `%s,"tries":%d` + logEnd
)

// logText is the part of a line that is the same for all requests of a route to an endpoint.
func (e *edge) logText(route, pool, endpoint string) string {
	return fmt.Sprintf(`"listener":"%s","route":"%s","pool":"%s","endpoint":"%s"`, escaped(e.conf.Listener), escaped(route),
		escaped(pool), endpoint)
}

// logTexts are those of a route, by the turns of its endpoints.
func (e *edge) logTexts(route *Route, places []string) []string {
	found := []string{}
	for _, place := range places {
		found = append(found, e.logText(route.Name, route.Targets[0].Pool, place))
	}
	return found
}

// clientLeft is the status of a plain request whose client went before there was an answer.
const clientLeft = -1

// measure finds what a plain request's answer was when the endpoint did not say.
func (c *conn) measure(w http.ResponseWriter) {
	c.size = answerOf(w).written
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
