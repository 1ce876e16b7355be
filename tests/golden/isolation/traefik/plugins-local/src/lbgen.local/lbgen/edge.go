package lbgen

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// ServiceHeader is what the child routers match; it never leaves the proxy and a client's is overwritten.
const ServiceHeader = "X-Lbgen-Service"

// Interpreted types have no names at run time, so that only a text tells a context key from others.
const stateKey = "lbgen.state"

// state travels with a request from its edge to a hop.
type state struct {
	route  *Route
	target string // request target for the endpoint
	watch  *watch // of the body on its way, nil for none
}

var usual = map[string]bool{"GET": true, "HEAD": true, "POST": true, "PUT": true, "DELETE": true, "PATCH": true, "OPTIONS": true}

type edge struct {
	conf    *EdgeConfig
	next    http.Handler
	trusted []netip.Prefix
	exact   map[string]*table
	wild    map[string]*table
	any     *table
	known   bool
	shares  sync.Mutex
	credit  map[*Target]int
}

func newEdge(conf *EdgeConfig, next http.Handler) (http.Handler, error) {
	e := &edge{conf: conf, next: next, exact: map[string]*table{}, wild: map[string]*table{}, credit: map[*Target]int{}}
	for _, text := range conf.Trusted {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		e.trusted = append(e.trusted, prefix)
	}
	for _, route := range conf.Routes {
		route.times = timesKey(route.Connect, route.Response)
		for _, target := range route.Targets {
			target.header = []string{target.Service}
		}
	}
	rules := []*rule{}
	for _, each := range conf.Rules {
		one, err := newRule(each, conf.Routes[each.Route])
		if err != nil {
			return nil, err
		}
		rules = append(rules, one)
	}
	e.any = &table{}
	for _, each := range conf.Tables {
		one, err := newTable(each, rules)
		if err != nil {
			return nil, err
		}
		if each.Host == "" {
			e.any = one
		} else if strings.HasPrefix(each.Host, "*.") {
			e.wild[each.Host[2:]] = one
		} else {
			e.exact[each.Host] = one
		}
	}
	return e, nil
}

// A call costs about a microsecond in the interpreter, a map look-up or a comparison far less: hence the plain cases
// in line, here and in forwarded.
func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.known {
		e.known = true
		e.adjust(r)
	}
	if !usual[r.Method] {
		if r.Method == "" || !only(r.Method, upper+"_-") || !only(r.Method[:1], upper) {
			plain(w, r, http.StatusBadRequest, nil)
			return
		}
		if r.Method == http.MethodTrace || r.Method == http.MethodConnect {
			plain(w, r, http.StatusMethodNotAllowed, nil)
			return
		}
	}
	raw := r.RequestURI
	if r.URL.RawPath != "" { // Traefik changes only what has a raw path
		known := false
		if raw, known = rawTarget(w); !known {
			plain(w, r, http.StatusBadRequest, nil)
			return
		}
	}
	from := &arrival{peer: peerOf(r.RemoteAddr)}
	from.trust = len(e.trusted) > 0 && e.trusts(from.peer)
	target := raw
	usualForm := raw != "" && raw[0] == '/' && r.ProtoMinor == 1 && len(r.TransferEncoding) == 0
	if from.trust || e.conf.Peek || !usualForm {
		from.head = rawHead(w, r.Method, raw)
	}
	if !usualForm || r.Host == "" || !only(r.Host, hostChars) {
		ok := false
		if target, ok = accept(r, raw, from.head); !ok {
			plain(w, r, http.StatusBadRequest, nil)
			return
		}
	}
	path, matched, query, ok := strict(target)
	if !ok {
		plain(w, r, http.StatusBadRequest, nil)
		return
	}
	q := &request{method: r.Method, path: path, matched: matched, query: query, header: r.Header}
	if e.conf.Peek {
		q.named = filledIn(r, from.head)
	}
	found := e.tableOf(r.Host).find(q)
	if found == nil {
		plain(w, r, http.StatusNotFound, nil)
		return
	}
	e.act(w, r, q, found, from)
}

// adjust sets what Traefik has no option for in the server of the entry point: a time for heads that is none for bodies,
// and that OPTIONS * comes here as well. It holds from the second request on.
func (e *edge) adjust(r *http.Request) {
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok {
		server.ReadHeaderTimeout = time.Duration(e.conf.HeadTime) * time.Millisecond
		server.DisableGeneralOptionsHandler = true
	}
}

// accept checks what precedes the path policy and gives the target in origin-form.
func accept(r *http.Request, raw string, head []byte) (string, bool) {
	if !only(r.Host, hostChars) || (r.Host == "" && r.ProtoMinor == 1) || r.ProtoMinor > 1 {
		return "", false
	}
	if head != nil {
		codings := rawLines(head, "transfer-encoding")
		if len(codings) > 0 && (r.ProtoMinor == 0 || len(codings) > 1 || len(rawLines(head, "content-length")) > 0) {
			return "", false
		}
	}
	return origin(raw, func() (string, bool) {
		lines := rawLines(head, "host")
		if len(lines) != 1 || !only(lines[0], hostChars) {
			return "", false
		}
		return lines[0], true
	})
}

// peerOf is the address of the client, without port, brackets and zone.
func peerOf(address string) string {
	at := strings.LastIndexByte(address, ':')
	if at < 0 {
		return address
	}
	host := address[:at]
	if host[0] == '[' {
		host, _, _ = strings.Cut(host[1:at-1], "%")
	}
	return host
}

func (e *edge) trusts(peer string) bool {
	if len(e.trusted) == 0 {
		return false
	}
	address, err := netip.ParseAddr(peer)
	if err != nil {
		return false
	}
	address = address.Unmap()
	for _, prefix := range e.trusted {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// tableOf is the table of a Host line.
func (e *edge) tableOf(authority string) *table {
	if found, ok := e.exact[authority]; ok {
		return found
	}
	if authority == "" || len(e.exact)+len(e.wild) == 0 {
		return e.any
	}
	host := hostOf(authority)
	if found, ok := e.exact[host]; ok {
		return found
	}
	if len(e.wild) > 0 {
		for at := strings.IndexByte(host, '.'); at >= 0; at = strings.IndexByte(host, '.') {
			host = host[at+1:]
			if found, ok := e.wild[host]; ok {
				return found
			}
		}
	}
	return e.any
}

func (e *edge) act(w http.ResponseWriter, r *http.Request, q *request, found *rule, from *arrival) {
	route := found.route
	if route.Redirect != nil {
		w.Header().Set("Location", e.location(r, q, found))
		finish(w, r, route.Redirect.Status, "", route.Reply)
		return
	}
	if route.Respond != nil {
		for _, pair := range route.Respond.Headers {
			w.Header().Set(pair.Name, pair.Value)
		}
		finish(w, r, route.Respond.Status, route.Respond.Body, route.Reply)
		return
	}
	target := route.Targets[0]
	if len(route.Targets) > 1 {
		target = e.share(route)
	}
	if target.Service == "" {
		plain(w, r, http.StatusServiceUnavailable, route.Reply)
		return
	}
	e.forwarded(r, from)
	passed := &state{route: route, target: q.path + q.query}
	if route.Rewrite != nil {
		passed.target = rewritten(q, found)
		if route.Rewrite.Host != "" {
			r.Host = route.Rewrite.Host
		}
	}
	if route.Request != nil {
		edit(r.Header, route.Request)
	}
	if target.Request != nil {
		edit(r.Header, target.Request)
	}
	r.Header[ServiceHeader] = target.header
	e.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), stateKey, passed)))
}

// share picks a target by weight, evenly interleaved.
func (e *edge) share(route *Route) *Target {
	e.shares.Lock()
	defer e.shares.Unlock()
	total := 0
	best := route.Targets[0]
	for _, each := range route.Targets {
		total += each.Weight
		e.credit[each] += each.Weight
		if e.credit[each] > e.credit[best] {
			best = each
		}
	}
	e.credit[best] -= total
	return best
}
