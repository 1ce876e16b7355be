package lbgen

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// served is the server of a listener, whose requests go straight to an edge: Traefik's own handlers would change the
// target and the headers first, and cost as much as they are worth nothing here.
type served struct {
	server *http.Server
	own    http.Handler // Traefik's
	by     *edge

	context   func(context.Context, net.Conn) context.Context // Traefik's, or nil
	accepted  int                                             // connections since the server was taken over
	collected int                                             // how many were open at the last collection of garbage
}

// servers are the process's, by listener.
var (
	serversLock sync.Mutex
	servers     = map[string]*served{}
	secret      = newID()
	knocking    = "GET / HTTP/1.1\r\nHost: lbgen\r\nConnection: close\r\nX-Lbgen-Knock: " + secret + "\r\n\r\n"
	unreadable  bool // the head of the last knock was not found where net/http had it
	leaving     bool // another process takes this one's place
)

// leave makes every server close its connections after their next answer; a handler of its own costs others nothing.
func leave() {
	serversLock.Lock()
	defer serversLock.Unlock()
	if leaving {
		return
	}
	leaving = true
	for _, each := range servers {
		each.closing()
	}
}

func (s *served) closing() {
	last := s.server.Handler
	s.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		last.ServeHTTP(w, r)
	})
}

// enter makes an edge the one that serves its listener, and ends that with the context.
func (e *edge) enter(ctx context.Context) {
	serversLock.Lock()
	known := servers[e.conf.Listener]
	if known != nil {
		known.take(e)
	}
	serversLock.Unlock()
	if known == nil {
		go e.knock()
	}
	go e.leave(ctx)
}

// leave gives the listener back to Traefik when no other configuration took it.
func (e *edge) leave(ctx context.Context) {
	<-ctx.Done()
	time.Sleep(10 * time.Second)
	serversLock.Lock()
	defer serversLock.Unlock()
	if known := servers[e.conf.Listener]; known != nil && known.by == e {
		known.server.Handler = known.own
		known.by = nil
	}
}

// adopt takes over the server of a request that came through Traefik's handlers; false when there is nothing to serve.
func (e *edge) adopt(w http.ResponseWriter, r *http.Request) bool {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if ok {
		_, ok = server.Handler.(http.HandlerFunc) // of the same type, so that no request sees half of the change
	}
	knocks := r.Header.Get("X-Lbgen-Knock") == secret
	if knocks {
		unreadable = string(rawHead(inner(w), r)) != knocking
	}
	if !ok || unreadable {
		http.Error(w, "lbgen does not know this Traefik", http.StatusInternalServerError)
		return false
	}
	serversLock.Lock()
	if hostKey == nil {
		hostKey = findHostKey(r.Context())
	}
	known := servers[e.conf.Listener]
	if known == nil {
		known = &served{server: server, own: server.Handler, context: server.ConnContext}
		servers[e.conf.Listener] = known
	}
	if known.by == nil {
		known.take(e)
	}
	serversLock.Unlock()
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if knocks {
		w.WriteHeader(http.StatusNoContent)
		return false
	}
	return true
}

// take also sets what Traefik has no option for: a time for heads that is none for bodies, and that OPTIONS * comes here.
func (s *served) take(e *edge) {
	s.by = e
	s.server.ReadTimeout = 0
	s.server.ReadHeaderTimeout = time.Duration(e.conf.HeadTime) * time.Millisecond
	s.server.DisableGeneralOptionsHandler = true
	s.server.ConnState = nil
	var absent []any
	isSure := false                             // that these keys are not in the context of a connection either
	if e.conf.HeadTime > 0 && !e.conf.Through { // then all routers below are ours
		absent = e.findAbsentKeys()
	}
	s.server.ConnContext = func(ctx context.Context, connection net.Conn) context.Context {
		if s.context != nil {
			ctx = s.context(ctx, connection)
		}
		shrinkLookahead(connection)
		if s.accepted++; s.accepted%256 == 0 {
			s.collect()
		}
		if e.conf.HeadTime > 0 {
			ctx = withHeadTime(ctx, connection, s.server.ReadHeaderTimeout)
			if !isSure {
				absent = without(ctx, absent)
				isSure = true
			}
			for _, key := range absent {
				ctx = context.WithValue(ctx, key, nil)
			}
		}
		return context.WithValue(ctx, connKey, &conn{})
	}
	if e.counted != nil {
		counted := e.counted
		s.server.ConnState = func(connection net.Conn, now http.ConnState) { counted.changed(connection, now) }
	}
	s.server.Handler = s.own
	if !e.conf.Through && (!e.conf.Named || hostKey != nil) {
		s.server.Handler = e.handler
	}
	if leaving {
		s.closing()
	}
}

// knock asks the listener once by itself, so that clients find the server taken, and shows that heads can be read. Where the
// listener shows its certificate only to clients that have one, the first of them does that.
func (e *edge) knock() {
	host := e.conf.Address
	if host == "0.0.0.0" || host == "[::]" {
		host = "127.0.0.1"
	}
	port := e.conf.Bound
	if port == "" {
		port = e.conf.Port
	}
	for i := 0; i < 250; i++ {
		time.Sleep(20 * time.Millisecond)
		serversLock.Lock()
		known := servers[e.conf.Listener]
		serversLock.Unlock()
		if known != nil {
			return
		}
		connection, err := net.DialTimeout("tcp", host+":"+port, time.Second)
		if err != nil {
			continue
		}
		_ = connection.SetDeadline(time.Now().Add(time.Second))
		if e.conf.Proxied {
			_, _ = io.WriteString(connection, "PROXY UNKNOWN\r\n")
		}
		if e.conf.Scheme == "https" {
			connection = tls.Client(connection, &tls.Config{InsecureSkipVerify: true}) // nothing but the knock is said
		}
		_, _ = io.WriteString(connection, knocking)
		_, _ = io.Copy(io.Discard, connection)
		_ = connection.Close()
	}
}

// taken answers whether edges serve these listeners: requests before that come through Traefik's own handlers.
func taken(names []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		serversLock.Lock()
		defer serversLock.Unlock()
		for _, name := range names {
			if known := servers[name]; known == nil || known.by == nil {
				http.Error(w, "\""+name+" is not served yet\"", http.StatusServiceUnavailable)
				return
			}
		}
		_, _ = io.WriteString(w, "true")
	})
}

// Traefik fills these in where a client sent none, the last one always.
var filledNames = []string{"X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Real-Ip", "X-Forwarded-Server"}

// restore undoes what Traefik's handlers did to a request, and gives the writer below theirs.
func restore(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	w = inner(w)
	r.RequestURI = original(w).RequestURI
	h := r.Header
	head := rawHead(w, r)
	if head != nil {
		for _, name := range filledNames {
			delete(h, name)
			if lines := rawLines(head, strings.ToLower(name)); len(lines) > 0 {
				h[name] = lines
			}
		}
		return w
	}
	// The head is lost: what a trusted proxy sends as well is made anew with the same value, but for a port that equals
	// the one in its Host or the scheme's own.
	port := "80"
	if strings.HasPrefix(h.Get("X-Forwarded-Proto"), "https") {
		port = "443"
	}
	if at := strings.LastIndexByte(r.Host, ':'); at >= 0 && !strings.HasSuffix(r.Host, "]") {
		port = r.Host[at+1:]
	}
	if h.Get("X-Forwarded-Port") == port {
		delete(h, "X-Forwarded-Port")
	}
	if proto := h.Get("X-Forwarded-Proto"); proto == "http" || proto == "ws" {
		delete(h, "X-Forwarded-Proto")
	}
	if h.Get("X-Forwarded-Host") == r.Host {
		delete(h, "X-Forwarded-Host")
	}
	delete(h, "X-Forwarded-Server")
	if h.Get("X-Real-Ip") == peerOf(r.RemoteAddr) {
		delete(h, "X-Real-Ip")
	}
	return w
}
