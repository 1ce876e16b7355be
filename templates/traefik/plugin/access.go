package lbgen

import (
	"net/http"
	"net/netip"
	"strings"
)

// gate is an access list that was read.
type gate struct {
	deny   []netip.Prefix
	allow  []netip.Prefix
	closed bool
}

func newGate(conf *Access) (*gate, error) {
	if conf == nil {
		return nil, nil
	}
	found := &gate{closed: conf.Closed}
	var err error
	if found.deny, err = prefixes(conf.Deny); err != nil {
		return nil, err
	}
	found.allow, err = prefixes(conf.Allow)
	return found, err
}

func prefixes(texts []string) ([]netip.Prefix, error) {
	found := []netip.Prefix{}
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		found = append(found, prefix)
	}
	return found, nil
}

func covers(list []netip.Prefix, address netip.Addr) bool {
	for _, prefix := range list {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

func (g *gate) admits(client string) bool {
	address, err := netip.ParseAddr(client)
	if err != nil {
		return false
	}
	address = address.Unmap()
	if covers(g.deny, address) {
		return false
	}
	return !g.closed || covers(g.allow, address)
}

// clientOf is the client's address: the peer, or what trusted proxies say of theirs, read from the right.
func (e *edge) clientOf(from *arrival, h http.Header) string {
	client := from.peer
	if !from.trust {
		return client
	}
	list := strings.Split(strings.Join(h["X-Forwarded-For"], ","), ",")
	for i := len(list) - 1; i >= 0; i-- {
		text := strings.Trim(list[i], " \t")
		if text == "" {
			continue
		}
		address, err := netip.ParseAddr(text)
		if err != nil {
			break
		}
		client = address.Unmap().WithZone("").String()
		if !covers(e.trusted, address.Unmap()) {
			break
		}
	}
	return client
}
