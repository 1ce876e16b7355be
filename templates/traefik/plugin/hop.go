package lbgen

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Traefik's own reverse proxy turns ; in a query into &, asks for gzip in the client's name, drops
// Proxy-Authorization, sends a request again on a stale connection and has no idle time. This one is Go's with those
// switched off; choosing the service, and with it the endpoint, stays with Traefik.
type hop struct {
	endpoints []*endpoint
	proxies   map[string]*httputil.ReverseProxy
	lock      sync.Mutex
	turn      int
}

type endpoint struct {
	conf    *Endpoint
	address string
	active  int
	names   *names
}

func timesKey(connect, response int) string {
	return strconv.Itoa(connect) + "/" + strconv.Itoa(response)
}

func newHop(conf *HopConfig) *hop {
	h := &hop{proxies: map[string]*httputil.ReverseProxy{}}
	for _, each := range conf.Times {
		h.proxies[timesKey(each.Connect, each.Response)] = newProxy(each, conf.Keepalive)
	}
	for _, each := range conf.Endpoints {
		one := &endpoint{conf: each, address: net.JoinHostPort(each.Host, each.Port)}
		if each.Lookup {
			one.names = newNames(each.Host, conf.Resolvers)
		}
		h.endpoints = append(h.endpoints, one)
	}
	return h
}

func (h *hop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	passed, ok := ctx.Value(stateKey).(*state)
	if !ok {
		plain(w, r, http.StatusInternalServerError, nil)
		return
	}
	chosen := h.endpoints[0]
	if len(h.endpoints) > 1 {
		chosen = h.take()
	}
	passed.address = chosen.address
	if chosen.names != nil {
		host := chosen.names.address()
		if host == "" {
			if len(h.endpoints) > 1 {
				h.release(chosen)
			}
			plain(w, r, http.StatusServiceUnavailable, passed.route.Reply)
			return
		}
		passed.address = net.JoinHostPort(host, chosen.conf.Port)
	}
	var cancel context.CancelFunc
	if passed.route.Idle > 0 {
		ctx, cancel = context.WithCancel(ctx)
		passed.sending = r.ContentLength != 0
		passed.watch = &watch{silence: time.Duration(passed.route.Idle) * time.Millisecond, end: func() {
			if passed.sending {
				cut(w) // nothing else ends a read from the client
			}
			cancel()
		}}
		if passed.sending {
			passed.watch.start()
			r.Body = &watchedBody{body: r.Body, watch: passed.watch}
		}
		r = r.WithContext(ctx)
	}
	// A body that broke off ends in a panic; see cut. One deferred call for all: each costs.
	defer func() {
		failure := recover()
		if cancel != nil {
			passed.watch.stop()
			cancel()
		}
		if len(h.endpoints) > 1 {
			h.release(chosen)
		}
		if failure != nil && (failure != http.ErrAbortHandler || !cut(w)) {
			panic(failure)
		}
	}()
	h.proxies[passed.route.times].ServeHTTP(w, r)
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

func newProxy(times *Times, keepalive int) *httputil.ReverseProxy {
	dialer := &net.Dialer{Timeout: time.Duration(times.Connect) * time.Millisecond, KeepAlive: 30 * time.Second}
	return &httputil.ReverseProxy{
		Rewrite: rewrite,
		Transport: &http.Transport{
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
		},
		FlushInterval:  -1,
		ModifyResponse: modify,
		ErrorHandler:   failed,
	}
}

// kept are the headers that Go's proxy drops before rewrite.
var kept = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Proxy-Authorization", "Proxy-Authenticate"}

func rewrite(p *httputil.ProxyRequest) {
	passed := p.In.Context().Value(stateKey).(*state)
	out := p.Out
	out.URL.Scheme = "http"
	out.URL.Host = passed.address
	out.URL.Opaque = passed.target // the request line, byte for byte
	out.URL.RawQuery = ""
	out.URL.ForceQuery = false
	out.Trailer = nil
	header := out.Header
	delete(header, ServiceHeader)
	for _, name := range kept {
		if lines, found := p.In.Header[name]; found {
			header[name] = lines
		}
	}
	if out.Body == nil && again[out.Method] {
		// A body, though empty, keeps Go from sending the request a second time when a connection breaks.
		out.Body = io.NopCloser(strings.NewReader(""))
	}
}

var again = map[string]bool{"GET": true, "HEAD": true, "OPTIONS": true}

func modify(reply *http.Response) error {
	passed := reply.Request.Context().Value(stateKey).(*state)
	if passed.route.Reply != nil {
		edit(reply.Header, passed.route.Reply)
	}
	if passed.watch == nil {
		return nil
	}
	passed.sending = false
	if reply.StatusCode == http.StatusSwitchingProtocols {
		passed.watch.stop()
		reply.Body = tunnel(reply.Body, passed.route.Idle)
	} else if reply.ContentLength != 0 && reply.Request.Method != http.MethodHead {
		passed.watch.start()
		reply.Body = &watchedBody{body: reply.Body, watch: passed.watch}
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
