package lbgen

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"reflect"
	"strconv"
	"time"
)

func timesKey(connect, response int) string {
	return strconv.Itoa(connect) + "/" + strconv.Itoa(response)
}

// prepare makes the transports for a route's times that are not there yet.
func (p *pool) prepare(route *Route) error {
	key := timesKey(route.Connect, route.Response)
	route.times = key
	poolsLock.Lock()
	defer poolsLock.Unlock()
	shared := map[string]*http.Transport{}
	for _, each := range p.endpoints {
		if each.transports[key] != nil {
			continue
		}
		name := ""
		if p.conf.TLS != nil && p.conf.TLS.Name == "" && each.conf.Lookup {
			name = each.conf.Host // its address is dialled
		}
		made := shared[name]
		if made == nil {
			var err error
			if made, err = p.transport(route.Connect, route.Response, name); err != nil {
				return err
			}
			shared[name] = made
		}
		each.transports[key] = made
	}
	return nil
}

func (p *pool) transport(connect, response int, name string) (*http.Transport, error) {
	dialer := &net.Dialer{Timeout: time.Duration(connect) * time.Millisecond, KeepAlive: 30 * time.Second}
	made := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			connection, err := dialer.DialContext(ctx, network, address)
			if err != nil || p.conf.Proxy == "" {
				return connection, err
			}
			if _, err = connection.Write(proxyHeader(ctx, p.conf.Proxy)); err != nil {
				_ = connection.Close()
				return nil, err
			}
			return connection, nil
		},
		ResponseHeaderTimeout: time.Duration(response) * time.Millisecond,
		TLSHandshakeTimeout:   time.Duration(connect) * time.Millisecond,
		MaxIdleConnsPerHost:   p.conf.Keepalive,
		DisableKeepAlives:     p.conf.Keepalive == 0 || p.conf.Proxy != "", // a PROXY header is about one client
		IdleConnTimeout:       time.Duration(p.conf.KeepaliveIdle) * time.Millisecond,
		DisableCompression:    true,
		ReadBufferSize:        16 * 1024,
		WriteBufferSize:       16 * 1024,
	}
	if p.conf.TLS != nil {
		settings, err := p.conf.TLS.settings(name)
		if err != nil {
			return nil, err
		}
		made.TLSClientConfig = settings
	}
	if p.conf.Protocol != "http1" && p.conf.TLS != nil {
		reflect.ValueOf(made).Elem().FieldByName("Protocols").Set(protocols("SetHTTP2"))
		made.TLSClientConfig.NextProtos = []string{"h2"}
	} else if p.conf.Protocol != "http1" {
		reflect.ValueOf(made).Elem().FieldByName("Protocols").Set(protocols("SetUnencryptedHTTP2"))
	}
	return made, nil
}

// protocols is a value for the field Protocols of a transport or server, which the interpreter does not know by name.
func protocols(way string) reflect.Value {
	kind := reflect.ValueOf(&http.Transport{}).Elem().FieldByName("Protocols").Type()
	made := reflect.New(kind.Elem())
	made.MethodByName(way).Call([]reflect.Value{reflect.ValueOf(true)})
	return made
}

func (t *TLS) settings(name string) (*tls.Config, error) {
	made := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.Name, InsecureSkipVerify: !t.Verify}
	if made.ServerName == "" {
		made.ServerName = name
	}
	if t.CA != "" {
		text, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, err
		}
		made.RootCAs = x509.NewCertPool()
		if !made.RootCAs.AppendCertsFromPEM(text) {
			return nil, errors.New(t.CA + " holds no certificate")
		}
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, err
		}
		made.Certificates = []tls.Certificate{pair}
	}
	return made, nil
}

var proxySignature = []byte("\r\n\r\n\x00\r\nQUIT\n")

// proxyHeader tells an endpoint whose request the connection is for; of a check, which is nobody's, it says so.
func proxyHeader(ctx context.Context, version string) []byte {
	from, to := netip.AddrPort{}, netip.AddrPort{}
	if s, ok := ctx.Value(stateKey).(*state); ok {
		from, _ = netip.ParseAddrPort(s.from)
		if local, known := ctx.Value(http.LocalAddrContextKey).(net.Addr); known {
			to, _ = netip.ParseAddrPort(local.String())
		}
		from = netip.AddrPortFrom(from.Addr().Unmap().WithZone(""), from.Port())
		to = netip.AddrPortFrom(to.Addr().Unmap().WithZone(""), to.Port())
	}
	known := from.IsValid() && to.IsValid()
	if known && from.Addr().Is4() != to.Addr().Is4() {
		from = netip.AddrPortFrom(netip.AddrFrom16(from.Addr().As16()), from.Port())
		to = netip.AddrPortFrom(netip.AddrFrom16(to.Addr().As16()), to.Port())
	}
	if version == "v1" {
		if !known {
			return []byte("PROXY UNKNOWN\r\n")
		}
		family := "TCP6 "
		if from.Addr().Is4() {
			family = "TCP4 "
		}
		return []byte("PROXY " + family + from.Addr().String() + " " + to.Addr().String() + " " +
			strconv.Itoa(int(from.Port())) + " " + strconv.Itoa(int(to.Port())) + "\r\n")
	}
	header := append([]byte{}, proxySignature...)
	if !known {
		return append(header, 0x20, 0x00, 0, 0)
	}
	source, target := from.Addr().AsSlice(), to.Addr().AsSlice()
	family := byte(0x21)
	if from.Addr().Is4() {
		family = 0x11
	}
	header = append(header, 0x21, family, 0, byte(2*len(source)+4))
	header = append(header, source...)
	header = append(header, target...)
	header = binary.BigEndian.AppendUint16(header, from.Port())
	return binary.BigEndian.AppendUint16(header, to.Port())
}
