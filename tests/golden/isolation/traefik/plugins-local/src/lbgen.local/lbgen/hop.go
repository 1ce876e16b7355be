package lbgen

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Traefik's own reverse proxy turns ; in a query into &, asks for gzip in the client's name, drops
// Proxy-Authorization, sends a request again on a stale connection and has no idle time. This one is Go's with those
// switched off; choosing the service, and with it the endpoint, stays with Traefik.
type hop struct {
	endpoints  []*endpoint
	transports map[string]*http.Transport
	lock       sync.Mutex
	turn       int
}

type endpoint struct {
	conf    *Endpoint
	active  int
	proxies map[string]*httputil.ReverseProxy // by times; of a name by times and address
	names   *names
}

func timesKey(connect, response int) string {
	return strconv.Itoa(connect) + "/" + strconv.Itoa(response)
}

func newHop(conf *HopConfig) *hop {
	h := &hop{transports: map[string]*http.Transport{}}
	for _, each := range conf.Times {
		h.transports[timesKey(each.Connect, each.Response)] = newTransport(each, conf.Keepalive)
	}
	for _, each := range conf.Endpoints {
		one := &endpoint{conf: each, proxies: map[string]*httputil.ReverseProxy{}}
		if each.Lookup {
			one.names = newNames(each.Host, conf.Resolvers)
		} else {
			for key, transport := range h.transports {
				one.proxies[key] = newProxy(transport, net.JoinHostPort(each.Host, each.Port))
			}
		}
		h.endpoints = append(h.endpoints, one)
	}
	return h
}

func (h *hop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	passed, ok := r.Context().Value(stateKey).(*state)
	if !ok {
		plain(w, r, http.StatusInternalServerError, nil)
		return
	}
	chosen := h.endpoints[0]
	if len(h.endpoints) > 1 {
		chosen = h.take()
	}
	proxy := chosen.proxies[passed.route.times]
	if chosen.names != nil {
		proxy = h.resolved(chosen, passed.route.times)
	}
	// A body that broke off ends in a panic; see cut. One deferred call for all: each costs.
	defer func() {
		failure := recover()
		if passed.watch != nil {
			passed.watch.stop()
		}
		if len(h.endpoints) > 1 {
			h.release(chosen)
		}
		if failure != nil && (failure != http.ErrAbortHandler || !cut(w)) {
			panic(failure)
		}
	}()
	if proxy == nil {
		plain(w, r, http.StatusServiceUnavailable, passed.route.Reply)
		return
	}
	passed.out(w, r)
	proxy.ServeHTTP(w, r)
}

// out makes the request what the endpoint gets. Its header, URL and body belong to it alone since the edge.
func (s *state) out(w http.ResponseWriter, r *http.Request) {
	header := r.Header
	delete(header, ServiceHeader)
	// Go's proxy knows these by their usual spelling only: it would add the client's address again, and drop the others.
	if lines := header["X-Forwarded-For"]; lines != nil {
		header["x-forwarded-for"] = lines
	}
	header["X-Forwarded-For"] = nil
	if lines, found := header["Proxy-Authorization"]; found {
		header["proxy-authorization"] = lines
	}
	if lines, found := header["Proxy-Authenticate"]; found {
		header["proxy-authenticate"] = lines
	}
	r.URL.Opaque = s.target // the request line, byte for byte
	r.URL.RawQuery = ""
	r.URL.ForceQuery = false
	if r.ContentLength != 0 {
		if s.route.Idle > 0 {
			s.watch = &watch{silence: time.Duration(s.route.Idle) * time.Millisecond, end: func() {
				cut(w) // nothing else ends a read from the client
			}}
			s.watch.start()
			r.Body = &watchedBody{body: r.Body, watch: s.watch}
		}
	} else if again[r.Method] {
		// A body, though empty, keeps Go from sending the request a second time when a connection breaks.
		r.Body = io.NopCloser(strings.NewReader(""))
		r.ContentLength = -1
	}
}

var again = map[string]bool{"GET": true, "HEAD": true, "OPTIONS": true}

// resolved is the proxy to the name's present address, or nil when it has none.
func (h *hop) resolved(chosen *endpoint, times string) *httputil.ReverseProxy {
	host := chosen.names.address()
	if host == "" {
		return nil
	}
	key := times + " " + host
	h.lock.Lock()
	defer h.lock.Unlock()
	found, ok := chosen.proxies[key]
	if !ok {
		if len(chosen.proxies) > 100 {
			chosen.proxies = map[string]*httputil.ReverseProxy{} // a name that keeps moving
		}
		found = newProxy(h.transports[times], net.JoinHostPort(host, chosen.conf.Port))
		chosen.proxies[key] = found
	}
	return found
}

// cut closes the client's connection, so that it sees the body break off. The panic would do the same and fill the log.
func cut(w http.ResponseWriter) bool {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	return connection.Close() == nil
}

// take is the endpoint with the fewest requests for its weight; equals take turns.
func (h *hop) take() *endpoint {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.turn++
	var best *endpoint
	for i := range h.endpoints {
		each := h.endpoints[(i+h.turn)%len(h.endpoints)]
		if best == nil || (each.active+1)*best.conf.Weight < (best.active+1)*each.conf.Weight {
			best = each
		}
	}
	best.active++
	return best
}

func (h *hop) release(chosen *endpoint) {
	h.lock.Lock()
	chosen.active--
	h.lock.Unlock()
}

func newTransport(times *Times, keepalive int) *http.Transport {
	dialer := &net.Dialer{Timeout: time.Duration(times.Connect) * time.Millisecond, KeepAlive: 30 * time.Second}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		},
		ResponseHeaderTimeout: time.Duration(times.Response) * time.Millisecond,
		MaxIdleConnsPerHost:   keepalive,
		DisableKeepAlives:     keepalive == 0,
		IdleConnTimeout:       30 * time.Second,
		DisableCompression:    true,
		ReadBufferSize:        16 * 1024,
		WriteBufferSize:       16 * 1024,
	}
}

func newProxy(transport *http.Transport, address string) *httputil.ReverseProxy {
	found := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	found.Transport = transport
	found.FlushInterval = -1
	found.ModifyResponse = modify
	found.ErrorHandler = failed
	return found
}

func modify(reply *http.Response) error {
	passed := reply.Request.Context().Value(stateKey).(*state)
	if passed.route.Reply != nil {
		edit(reply.Header, passed.route.Reply)
	}
	if passed.watch != nil { // that of the request's body
		passed.watch.stop()
		passed.watch = nil
	}
	if passed.route.Idle == 0 {
		return nil
	}
	if reply.StatusCode == http.StatusSwitchingProtocols {
		reply.Body = tunnel(reply.Body, passed.route.Idle)
	} else if reply.ContentLength != 0 && reply.Request.Method != http.MethodHead {
		body := reply.Body
		passed.watch = &watch{silence: time.Duration(passed.route.Idle) * time.Millisecond, end: func() { _ = body.Close() }}
		passed.watch.start()
		reply.Body = &watchedBody{body: body, watch: passed.watch}
	}
	return nil
}

func failed(w http.ResponseWriter, r *http.Request, err error) {
	var reply *Edits
	status := http.StatusBadGateway
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		status = http.StatusGatewayTimeout
	}
	if passed, ok := r.Context().Value(stateKey).(*state); ok {
		reply = passed.route.Reply
		if passed.watch != nil && passed.watch.expired() {
			return // the client stopped in the middle of its body, its connection is closed
		}
	}
	plain(w, r, status, reply)
}
