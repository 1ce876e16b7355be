package lbgen

import (
	"crypto/rand"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Requests is about every request of a listener.
type Requests struct {
	TrustedProxies []string // networks
	MaxTarget      int      // bytes; 0 = no limit
	RequestID      bool     // make one where no trusted proxy sent one; what others sent is dropped
	ClientAddress  bool     // take the client's address from what trusted proxies say
	ClientHeader   string   // where they state it; "" = in X-Forwarded-For
	HideAddress    bool     // add nothing to X-Forwarded-For
	RealIP         bool     // set X-Real-Ip to that address; for other peers Traefik does so
	Forwarded      string   // "http" or "https": set Forwarded (RFC 7239), whose proto it is
}

func serveRequests(next http.Handler, config *Requests) (http.Handler, error) {
	var trusted []netip.Prefix
	for _, text := range config.TrustedProxies {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		trusted = append(trusted, network)
	}
	handler := next
	switch {
	case len(trusted) > 0 || config.Forwarded != "":
		handler = believeProxies(next, trusted, config)
	case config.RequestID:
		handler = makeIDs(next)
	}
	if config.MaxTarget > 0 {
		handler = limitTarget(handler, config.MaxTarget)
	}
	return handler, nil
}

// makeIDs gives each request an id of its own. Each interpreted call costs, so that most listeners have only this.
func makeIDs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := make([]byte, 16)
		rand.Read(id)
		r.Header["X-Request-Id"] = []string{hex.EncodeToString(id)}
		next.ServeHTTP(w, r)
	})
}

func limitTarget(next http.Handler, most int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.RequestURI) > most {
			http.Error(w, "URI Too Long", http.StatusRequestURITooLong)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// believeProxies takes request ids, the client's address and Forwarded from trusted proxies alone.
func believeProxies(next http.Handler, trusted []netip.Prefix, config *Requests) http.Handler {
	makesIDs, findsClients, header, scheme := config.RequestID, config.ClientAddress, config.ClientHeader, config.Forwarded
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address := hostOf(r.RemoteAddr)
		if !isTrusted(trusted, r.RemoteAddr) {
			delete(r.Header, "X-Request-Id")
			if header != "" && !(config.RealIP && header == "X-Real-Ip") {
				r.Header.Del(header)
			}
			if scheme != "" {
				delete(r.Header, "Forwarded")
			}
		} else if findsClients {
			client := setClientAddress(r, trusted, config)
			if config.RealIP {
				r.Header["X-Real-Ip"] = []string{client}
			}
			if header != "" && header != "Forwarded" {
				address = client
				delete(r.Header, "Forwarded")
			}
		}
		if scheme != "" {
			addForwarded(r, address, scheme)
		}
		if makesIDs && r.Header.Get("X-Request-Id") == "" {
			id := make([]byte, 16)
			rand.Read(id)
			r.Header["X-Request-Id"] = []string{hex.EncodeToString(id)}
		}
		next.ServeHTTP(w, r)
	})
}

// Guard does what Traefik does from 3.7 on.
type Guard struct {
	DropUnderscores bool // fields that an endpoint could take for others, as X_Real_IP for X-Real-IP
}

// guard also refuses targets such as `host:80`, which are no path.
func guard(next http.Handler, dropsUnderscores bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Opaque != "" {
			http.Error(w, "Bad Request", http.StatusBadRequest)
			return
		}
		if dropsUnderscores {
			for name := range r.Header {
				if strings.Contains(name, "_") {
					delete(r.Header, name)
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// setClientAddress makes the last address in X-Forwarded-For, or in the header that states clients, that is no trusted
// proxy the request's own, and returns it. Without a port Traefik's proxy adds nothing to X-Forwarded-For, so the peer is
// added here; where another header counts, the client alone.
func setClientAddress(r *http.Request, trusted []netip.Prefix, config *Requests) string {
	header := config.ClientHeader
	if header == "" {
		header = "X-Forwarded-For"
	}
	peer := hostOf(r.RemoteAddr)
	client := peer
	parts := strings.Split(strings.Join(r.Header.Values(header), ","), ",")
	for i := len(parts) - 1; i >= 0; i-- {
		text := strings.TrimSpace(parts[i])
		if header == "Forwarded" {
			text = nodeOf(text)
		}
		address, err := netip.ParseAddr(text)
		if err != nil {
			break
		}
		client = address.Unmap().String()
		if !contains(trusted, address.Unmap()) {
			break
		}
	}
	if config.ClientHeader != "" {
		delete(r.Header, "X-Forwarded-For")
		peer = client
	}
	if !config.HideAddress {
		addForwardedFor(r, peer)
	}
	r.RemoteAddr = client
	return client
}

// nodeOf returns what an element of Forwarded says in for=192.0.2.1 or for="[2001:db8::1]".
func nodeOf(element string) string {
	for _, pair := range strings.Split(element, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(name, "for") {
			return strings.TrimSuffix(strings.TrimPrefix(strings.Trim(value, `"`), "["), "]")
		}
	}
	return ""
}

// addForwarded adds an element to Forwarded, which quotes what is no token.
func addForwarded(r *http.Request, address, scheme string) {
	if strings.Contains(address, ":") {
		address = `"[` + address + `]"`
	}
	host := r.Host
	if strings.ContainsAny(host, `:;,=()[]@`) {
		host = `"` + host + `"`
	}
	r.Header.Add("Forwarded", "for="+address+";host="+host+";proto="+scheme)
}

func addForwardedFor(r *http.Request, peer string) {
	if forwarded := r.Header.Get("X-Forwarded-For"); forwarded != "" {
		peer = forwarded + ", " + peer
	}
	r.Header.Set("X-Forwarded-For", peer)
}

func isTrusted(trusted []netip.Prefix, remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	return err == nil && contains(trusted, peer.Addr().Unmap().WithZone(""))
}

func contains(networks []netip.Prefix, address netip.Addr) bool {
	for _, network := range networks {
		if network.Contains(address) {
			return true
		}
	}
	return false
}

// hostOf returns an address without its port and zone.
func hostOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	host, _, _ = strings.Cut(host, "%")
	return host
}
