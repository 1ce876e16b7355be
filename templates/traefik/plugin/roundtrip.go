package lbgen

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Interpreted types have no names at run time, so that only a text tells a context key from others.
const stateKey = "lbgen.state"

// state travels with a request from its edge to an endpoint and back.
type state struct {
	edge      *edge
	route     *Route
	pool      *pool
	request   *http.Request
	arrival   *arrival
	plain     bool // it is as plain as one without a state
	q         *request
	peer      string // address of the connection's other end
	from      string // the same with its port
	address   string // of the client, known when somebody asked for it
	client    http.ResponseWriter
	target    string // request target for the endpoint
	host      string // as the client sent it
	hash      string
	origin    string // of an allowed page, for the answer
	gzip      bool   // the client takes it
	counted   bool   // it counts as a request of the route under way
	countKey  string
	stuck     *endpoint
	unstuck   bool // the answer brings a cookie
	chosen    *endpoint
	tried     map[*endpoint]bool
	tries     int
	retrying  bool                     // it counts against the budget of retries
	place     string                   // of the last try
	until     time.Time                // end of the time for all tries
	due       *http.ResponseController // has that as the end of writing, nil for none
	asked     time.Time
	answered  time.Time
	silence   *silence           // of the answer, nil for none
	watch     *watch             // of the request's body between two reads, nil for none
	slow      *watch             // of each read from the client, nil for none
	stop      context.CancelFunc // ends the try under way, nil for a request without a body
	held      []byte             // the body as far as it was read ahead
	complete  bool               // all of it is held
	bodied    bool
	whole     bool  // the client's body was read to its end
	length    int64 // of the client's body
	tunnelled bool
	broken    bool // the client's body could not be read
	left      bool // the client went before there was an answer
	rest      io.Reader
}

var (
	errNone = errors.New("no endpoint can be had")
	errLost = errors.New("no endpoint has an address")
)

// serve sends the request to an endpoint and the answer to the client. Go's proxy does the work: Traefik's own turns ;
// in a query into &, asks for gzip in the client's name, drops Proxy-Authorization and has no idle time.
func (p *pool) serve(w http.ResponseWriter, r *http.Request, s *state) {
	s.pool = p
	s.client = w
	s.length = r.ContentLength
	if len(r.Trailer) > 0 {
		dropNoNames(r.Trailer)
	}
	if p.conf.Protocol != "http1" && r.Header["Upgrade"] != nil { // not in HTTP/2: Go's client would fail, as if the endpoint had
		delete(r.Header, "Upgrade")
		delete(r.Header, "Connection")
	}
	w.Header()["Content-Type"] = nil // an answer without one stays so
	s.out(r.Header)
	ctx := context.WithValue(r.Context(), stateKey, s)
	if s.route.Total > 0 || s.length != 0 {
		p.serveWithin(ctx, w, r, s)
		return
	}
	p.pass(w, r.WithContext(ctx), s)
}

// serveWithin serves a request that has a body or a time for all tries.
func (p *pool) serveWithin(ctx context.Context, w http.ResponseWriter, r *http.Request, s *state) {
	if s.route.Total > 0 && r.Header["Upgrade"] == nil {
		total := time.Duration(s.route.Total) * time.Millisecond
		s.until = time.Now().Add(total)
		limited, cancel := context.WithDeadline(ctx, s.until)
		defer cancel()
		ctx = limited
		if s.length != 0 {
			late := time.AfterFunc(total, func() {
				if !s.whole { // the context does not end a read from the client
					_ = http.NewResponseController(w).SetReadDeadline(time.Now())
				}
			})
			defer late.Stop()
		}
	}
	if s.length != 0 {
		ended, cancel := context.WithCancel(ctx)
		defer cancel()
		s.stop = cancel
		ctx = ended
		s.watchBody(w, r)
	}
	p.pass(w, r.WithContext(ctx), s)
}

// dropNoNames drops what a client announces as trailers and cannot be any: Go's client would fail, as if the endpoint had.
func dropNoNames(h http.Header) {
	for name := range h {
		if !only(name, alnum+"!#$%&'*+-.^_`|~") {
			delete(h, name)
		}
	}
}

// pass has Go's proxy do its work. A body that broke off ends in a panic of it. Over HTTP/2 that resets the stream; see cut
// for HTTP/1.
func (p *pool) pass(w http.ResponseWriter, r *http.Request, s *state) {
	if r.ProtoMajor == 2 {
		defer p.settle(s)
		p.proxy.ServeHTTP(w, r)
		return
	}
	defer func() {
		failure := recover()
		p.settle(s)
		if failure != nil {
			s.edge.broken(w, failure)
		}
	}()
	p.proxy.ServeHTTP(w, r)
}

// settle gives back what a request held.
func (p *pool) settle(s *state) {
	if s.watch != nil {
		s.watch.stop()
	}
	if s.silence != nil {
		s.edge.silences.drop(s.silence)
	}
	if s.chosen != nil {
		p.leave(s.chosen)
	}
	if s.unread() != 0 && s.request.ProtoMajor == 1 {
		linger(s.client)
	}
	if s.due != nil {
		_ = s.due.SetWriteDeadline(time.Time{})
	}
	if s.tunnelled && s.edge.counted != nil {
		s.edge.counted.ended()
	}
	if s.retrying {
		p.lock.Lock()
		p.retrying--
		p.lock.Unlock()
	}
}

// out makes the header what the endpoint gets: Go's proxy knows these by their usual spelling only. It would add the
// client's address again, and drop the others.
func (s *state) out(header http.Header) {
	header["x-forwarded-for"] = header["X-Forwarded-For"]
	header["X-Forwarded-For"] = nil
	if lines := header["Proxy-Authorization"]; lines != nil {
		header["proxy-authorization"] = lines
	}
	if lines := header["Proxy-Authenticate"]; lines != nil {
		header["proxy-authenticate"] = lines
	}
}

// watchBody limits the size of the client's body, the client's silences within it, and those of an endpoint that does
// not read it.
func (s *state) watchBody(w http.ResponseWriter, r *http.Request) {
	delete(r.Header, "Expect") // Go's server answers it; the endpoint would a second time
	if s.route.Body != nil && s.route.Body.Limited && r.ContentLength < 0 {
		r.Body = http.MaxBytesReader(w, r.Body, int64(s.route.Body.Max))
	}
	body, streamed := r.Body, r.ProtoMajor == 2
	end := func() {
		if streamed {
			_ = body.Close() // ends a read of it; over HTTP/1 it would wait for that
		} else {
			s.edge.cut(w)
		}
		s.stop() // the endpoint may be the one that does not read, which ends no write to it
	}
	from := &clientBody{body: r.Body, state: s}
	if s.edge.conf.BodyTime > 0 {
		s.slow = newWatch(s.edge.conf.BodyTime, end)
		from.slow = s.slow
	}
	if s.route.Idle > 0 {
		s.watch = newWatch(s.route.Idle, end)
		from.watch = s.watch
	}
	r.Body = from
}

var again = map[string]bool{"GET": true, "HEAD": true, "OPTIONS": true}

// RoundTrip is called by Go's proxy.
func (p *pool) RoundTrip(r *http.Request) (*http.Response, error) {
	s := r.Context().Value(stateKey).(*state)
	hideKeys(r.Header)
	if strings.HasPrefix(s.target, "//") {
		ownPath(r.URL, s.target) // as an opaque one it would gain a scheme
	} else {
		r.URL.Opaque = s.target // the request line, byte for byte
		r.URL.RawQuery = ""
		r.URL.ForceQuery = false
	}
	return p.try(r, s)
}

// hideKeys spells the fields with a key for repeats as Go's client does not: by them it would send any request without a
// body a second time when a kept connection breaks.
func hideKeys(h http.Header) {
	if lines := h["Idempotency-Key"]; lines != nil {
		delete(h, "Idempotency-Key")
		h["idempotency-key"] = lines
	}
	if lines := h["X-Idempotency-Key"]; lines != nil {
		delete(h, "X-Idempotency-Key")
		h["x-idempotency-key"] = lines
	}
}

// try tries endpoints until one has answered or no further try is due.
func (p *pool) try(r *http.Request, s *state) (*http.Response, error) {
	s.bodied = r.Body != nil
	if s.bodied {
		if err := s.hold(r); err != nil {
			return nil, err
		}
	}
	if len(s.route.Mirrors) > 0 && r.Header["Upgrade"] == nil { // tunnels are not copied
		s.mirror(r)
	}
	s.asked = time.Now()
	try := r
	chosen := p.take(r.Context(), s)
	for {
		if chosen == nil {
			return nil, errNone
		}
		s.chosen = chosen
		host := chosen.address
		if chosen.names != nil {
			if host = p.named(r, s); host == "" {
				return nil, errLost
			}
			chosen = s.chosen
		}
		s.tries++
		s.place = host
		try.URL.Host = host
		if s.bodied {
			try.Body = s.body()
		} else if again[r.Method] || p.conf.Protocol != "http1" {
			// A body, though empty, keeps Go from sending the request again: of HTTP/1 when a connection breaks, of HTTP/2
			// without end when an endpoint refuses it.
			try.Body = io.NopCloser(strings.NewReader(""))
			try.ContentLength = -1
		}
		reply, err := chosen.transports[s.route.times].RoundTrip(try)
		if p.plain && s.route.Retries == nil {
			return reply, err
		}
		if err == nil && reply.StatusCode < http.StatusBadRequest { // nothing that is ever tried again
			if p.conf.Passive != nil {
				p.note(s.chosen, false)
			}
			return reply, err
		}
		next := p.judge(r, s, reply, err)
		if next == nil {
			return reply, err
		}
		if reply != nil {
			_ = reply.Body.Close()
		}
		chosen = next
		try = r.WithContext(r.Context())
	}
}

// named is the address of the chosen endpoint, which has a name; if that has none, that of another endpoint, which is
// then the chosen one; empty when all are without.
func (p *pool) named(r *http.Request, s *state) string {
	for {
		if host := s.chosen.place(); host != "" {
			return host
		}
		chosen := s.chosen
		p.leave(chosen)
		s.chosen = nil
		if s.lost(chosen) {
			return ""
		}
		if s.chosen = p.take(r.Context(), s); s.chosen == nil {
			return ""
		}
	}
}

// lost notes that an endpoint has no address; true when that is so of all.
func (s *state) lost(chosen *endpoint) bool {
	if s.tried == nil {
		s.tried = map[*endpoint]bool{}
	}
	s.tried[chosen] = true
	return len(s.tried) >= len(s.pool.endpoints)
}

// cut closes the client's connection, so that it sees the body break off. The panic would do the same and fill the log.
func (e *edge) cut(w http.ResponseWriter) bool {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	if e.counted != nil {
		e.counted.ended() // to Go's server it was a tunnel
	}
	return connection.Close() == nil
}

// modify makes an endpoint's answer what the client gets.
func modify(reply *http.Response) error {
	s := reply.Request.Context().Value(stateKey).(*state)
	if s.edge.log != nil {
		s.answered = time.Now()
	}
	if s.watch != nil { // that of the request's body
		s.watch.stop()
		s.watch = nil
	}
	if s.unread() != 0 && s.request.ProtoMajor == 1 {
		reply.Header["Connection"] = closing // else Go reads the request's body before it answers
	}
	s.client.Header()["Content-Type"] = nil // as in serve: Go's proxy forgets it with a 1xx response
	empty := reply.ContentLength == 0 || reply.Request.Method == http.MethodHead
	if reply.StatusCode == http.StatusSwitchingProtocols {
		s.tunnel(reply)
	} else if !empty {
		if s.route.Idle > 0 {
			s.watched(reply)
		}
		if s.route.Total > 0 {
			s.due = http.NewResponseController(s.client) // ends writing to a client that does not read
			_ = s.due.SetWriteDeadline(s.until)
		}
	}
	if s.route.answered {
		s.shape(reply, empty)
	}
	return nil
}

var closing = []string{"close"}

// unread is the length of the client's body while it is not read to its end, else 0.
func (s *state) unread() int64 {
	if s.whole {
		return 0
	}
	return s.length
}

// tunnel is what an upgraded connection becomes.
func (s *state) tunnel(reply *http.Response) {
	s.tunnelled = true
	if s.route.Idle > 0 {
		reply.Body = tunnel(reply.Body, s.route.Idle)
	}
}

// watched ends a body that is silent for too long.
func (s *state) watched(reply *http.Response) {
	s.silence = &silence{writer: s.client, body: reply.Body, patience: s.edge.patience(s.route)}
	s.edge.silences.add(s.silence)
}

// shape does to an answer what the route asks for.
func (s *state) shape(reply *http.Response, empty bool) {
	route := s.route
	if route.Cors != nil {
		route.Cors.strip(reply.Header)
	}
	if !s.tunnelled && !empty {
		if route.Body != nil && route.Body.Reply {
			reply.Body = buffered(reply.Body)
		}
		if s.gzip && route.Compression.fits(reply) {
			compress(reply)
		}
	}
	if s.unstuck {
		sticky := s.pool.conf.Sticky
		reply.Header.Add("Set-Cookie", sticky.Cookie+"="+s.chosen.conf.ID+sticky.Line)
	}
	s.edits(reply.Header)
}

// edits are what the route asks of every answer to its requests.
func (s *state) edits(h http.Header) {
	if s.route.Cors != nil {
		s.route.Cors.show(h, s.origin)
	}
	if s.route.Reply != nil {
		edit(h, s.route.Reply)
	}
}

// answer is a status of the proxy's own for a request that has a route.
func (s *state) answer(w http.ResponseWriter, r *http.Request, status int) {
	w.Header().Set("Content-Type", "text/plain")
	s.finish(w, r, status, phrase(status)+"\n")
}

func (s *state) finish(w http.ResponseWriter, r *http.Request, status int, body string) {
	s.edits(w.Header())
	finish(w, r, status, body, nil)
}

// failed answers when no endpoint did.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	r.Context().Value(stateKey).(*state).fail(w, r, err)
}

func (s *state) fail(w http.ResponseWriter, r *http.Request, err error) {
	if s.slow != nil && s.slow.expired() || s.watch != nil && s.watch.expired() { // the client stopped within its body
		if r.ProtoMajor == 2 {
			s.answer(w, r, http.StatusRequestTimeout)
		}
		return // of HTTP/1 the connection is closed
	}
	if !s.asked.IsZero() {
		s.answered = time.Now()
	}
	if !s.until.IsZero() && !time.Now().Before(s.until) {
		r.ContentLength = s.unread() // not that of the try
		s.answer(w, r, http.StatusGatewayTimeout)
		return
	}
	// Without the second test it may be another client that left: where its response, one without a body, came at that moment,
	// Go has given the connection to this request already, and ends it with the other's error.
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		s.left = true
		s.edge.cut(w)
		return
	}
	status := http.StatusBadGateway
	var network net.Error
	var large *http.MaxBytesError
	if err == errNone || err == errLost {
		status = http.StatusServiceUnavailable
	} else if errors.As(err, &large) {
		status = http.StatusRequestEntityTooLarge
	} else if s.broken {
		status = http.StatusBadRequest
	} else if errors.As(err, &network) && network.Timeout() {
		status = http.StatusGatewayTimeout
	}
	r.ContentLength = s.unread() // not that of the try
	s.answer(w, r, status)
}
