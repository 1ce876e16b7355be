package lbgen

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

var usual = map[string]bool{"GET": true, "HEAD": true, "POST": true, "PUT": true, "DELETE": true, "PATCH": true, "OPTIONS": true}

type edge struct {
	conf    *Config
	trusted []netip.Prefix
	exact   map[string]*table
	wild    map[string]*table
	any     *table
	gate    *gate
	guards  map[*Route]*guard
	paths   *paths
	log     *log
	counted *connections
	shares  sync.Mutex
	credit  map[*Target]int
}

// ServeHTTP is called by Traefik, but once a server is adopted no longer.
func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.adopt(w, r) {
		e.serveDirect(restore(w, r), r)
	}
}

// serveDirect is called by Go's server.
func (e *edge) serveDirect(w http.ResponseWriter, r *http.Request) {
	if e.log == nil {
		e.serve(w, r, nil)
		return
	}
	entry := &entry{began: time.Now()}
	defer e.log.write(e, w, r, entry)
	e.serve(w, r, entry)
}

// A call costs about a microsecond in the interpreter, a map look-up or a comparison far less: hence the plain cases
// in line, here and in forwarded.
func (e *edge) serve(w http.ResponseWriter, r *http.Request, noted *entry) {
	raw := r.RequestURI
	if noted != nil {
		noted.target = raw
	}
	if e.conf.Proxied && !proxied(w) {
		if r.ProtoMajor == 2 { // only Go can close it, and does so after an answer
			w.Header().Set("Connection", "close")
			plain(w, r, http.StatusBadRequest, nil)
		} else {
			e.cut(w)
		}
		return
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
	from := &arrival{peer: peerOf(r.RemoteAddr)}
	from.trust = len(e.trusted) > 0 && e.trusts(from.peer)
	target := raw
	usualForm := raw != "" && raw[0] == '/' && (r.ProtoMinor == 1 || r.ProtoMajor == 2) && len(r.TransferEncoding) == 0
	head := rawHead(w, r)
	if head != nil && folded(head) {
		w.Header().Set("Connection", "close") // what follows may be read in two ways as well
		plain(w, r, http.StatusBadRequest, nil)
		return
	}
	if lines, named := r.Header["Connection"]; named && !mayNominate(lines) {
		w.Header().Set("Connection", "close")
		plain(w, r, http.StatusBadRequest, nil)
		return
	}
	if !usualForm || r.Host == "" || !only(r.Host, hostChars) || r.ProtoMajor == 2 {
		ok := false
		if target, ok = e.accept(r, raw, head); !ok {
			if r.ProtoMajor == 1 {
				w.Header().Set("Connection", "close")
			}
			plain(w, r, http.StatusBadRequest, nil)
			return
		}
	}
	if e.conf.Target > 0 && len(raw) > e.conf.Target {
		plain(w, r, http.StatusRequestURITooLong, nil)
		return
	}
	path, matched, query, ok := e.paths.split(target)
	if !ok {
		plain(w, r, http.StatusBadRequest, nil)
		return
	}
	if e.conf.Headers > 0 && headerBytes(r) > e.conf.Headers {
		plain(w, r, http.StatusRequestHeaderFieldsTooLarge, nil)
		return
	}
	if e.gate != nil && !e.gate.admits(e.clientOf(from, r.Header)) {
		plain(w, r, http.StatusForbidden, nil)
		return
	}
	q := &request{method: r.Method, path: path, matched: matched, query: query, header: r.Header, host: r.Host}
	found := e.tableOf(r.Host).find(q)
	if found == nil {
		plain(w, r, http.StatusNotFound, nil)
		return
	}
	s := &state{edge: e, route: found.route, q: q, peer: from.peer, from: r.RemoteAddr, host: r.Host}
	if noted != nil {
		noted.state = s
	}
	if found.route.guarded {
		asked := e.guards[found.route]
		if !asked.passes(w, r, s, from) {
			return
		}
		if s.counted {
			defer asked.counts.leave(s.countKey)
		}
	}
	e.act(w, r, s, found, from)
}

// headerBytes is the size of a request's header as lines.
func headerBytes(r *http.Request) int {
	total := len(r.Host) + 8
	for name, lines := range r.Header {
		for _, line := range lines {
			total += len(name) + len(line) + 4
		}
	}
	return total
}

// accept checks what precedes the path policy and gives the target in origin-form.
func (e *edge) accept(r *http.Request, raw string, head []byte) (string, bool) {
	if r.ProtoMajor == 2 {
		hosts, lengths := r.Header["Host"], r.Header["Content-Length"]
		if len(hosts) > 1 || len(hosts) == 1 && hosts[0] != r.Host || len(lengths) > 1 ||
			len(lengths) == 1 && lengths[0] != "0" && r.ContentLength == 0 { // a body that cannot be there
			return "", false
		}
		return raw, e.conf.HTTP2 && strings.HasPrefix(raw, "/") && r.Host != "" && only(r.Host, hostChars)
	}
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
	address, err := netip.ParseAddr(peer)
	return err == nil && covers(e.trusted, address.Unmap())
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

func (e *edge) act(w http.ResponseWriter, r *http.Request, s *state, found *rule, from *arrival) {
	route, q := found.route, s.q
	if route.Redirect != nil {
		w.Header().Set("Location", e.location(r, q, found))
		s.finish(w, r, route.Redirect.Status, "")
		return
	}
	if route.Respond != nil {
		for _, pair := range route.Respond.Headers {
			w.Header().Set(pair.Name, pair.Value)
		}
		s.finish(w, r, route.Respond.Status, route.Respond.Body)
		return
	}
	target := route.Targets[0]
	if route.sticky {
		target = e.stuck(s)
	} else if len(route.Targets) > 1 {
		target = e.share(route)
	}
	if hash := target.pool.conf.Hash; hash != nil {
		s.hash, _ = s.keyOf(hash)
	}
	e.forwarded(r, from)
	s.target = q.path + q.query
	if route.Rewrite != nil {
		s.target = rewritten(q, found)
		if route.Rewrite.Host != "" {
			r.Host = route.Rewrite.Host
		}
	}
	if target.pool.conf.Protocol == "grpc" {
		r.Header["Te"] = trailers
	}
	if route.Request != nil {
		edit(r.Header, route.Request)
	}
	if target.Request != nil {
		edit(r.Header, target.Request)
	}
	target.pool.serve(w, r, s)
}

// stuck picks the target whose endpoint the client's cookie names, else one by weight.
func (e *edge) stuck(s *state) *Target {
	if found := s.stick(); found != nil {
		for _, each := range s.route.Targets {
			if each.pool == found {
				return each
			}
		}
	}
	target := s.route.Targets[0]
	if len(s.route.Targets) > 1 {
		target = e.share(s.route)
	}
	s.unstuck = target.pool.conf.Sticky != nil
	return target
}

// share picks a target by weight, evenly interleaved.
func (e *edge) share(route *Route) *Target {
	e.shares.Lock()
	defer e.shares.Unlock()
	total := 0
	var best *Target
	for _, each := range route.Targets {
		total += each.Weight
		e.credit[each] += each.Weight
		if each.Weight > 0 && (best == nil || e.credit[each] > e.credit[best]) {
			best = each
		}
	}
	e.credit[best] -= total
	return best
}
