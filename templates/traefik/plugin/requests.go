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
	ClientAddress  bool     // take the client's address from the X-Forwarded-For of trusted proxies
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
	case len(trusted) > 0:
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

// believeProxies takes request ids and the client's address from trusted proxies alone.
func believeProxies(next http.Handler, trusted []netip.Prefix, config *Requests) http.Handler {
	makesIDs, findsClients := config.RequestID, config.ClientAddress
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isTrusted(trusted, r.RemoteAddr) {
			delete(r.Header, "X-Request-Id")
		} else if findsClients {
			setClientAddress(r, trusted)
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

// setClientAddress makes the last address in X-Forwarded-For that is no trusted proxy the request's own. Without a
// port Traefik's proxy adds nothing to X-Forwarded-For, so the peer is added here.
func setClientAddress(r *http.Request, trusted []netip.Prefix) {
	peer := hostOf(r.RemoteAddr)
	forwarded := r.Header.Get("X-Forwarded-For")
	client := peer
	parts := strings.Split(forwarded, ",")
	for i := len(parts) - 1; i >= 0; i-- {
		address, err := netip.ParseAddr(strings.TrimSpace(parts[i]))
		if err != nil {
			break
		}
		client = address.Unmap().String()
		if !contains(trusted, address.Unmap()) {
			break
		}
	}
	addForwardedFor(r, peer)
	r.RemoteAddr = client
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
