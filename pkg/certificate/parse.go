package certificate

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

const (
	maxText  = 64 << 10 // of what a host sends, bytes
	maxChain = 8        // certificates in it
)

// Parse reads a chain of PEM certificates, the signing one first. Text around them and
// blocks of other kinds are passed over.
func Parse(text []byte) (chain []*x509.Certificate, err error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("is larger than %d bytes", maxText)
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if len(chain) == maxChain {
			return nil, fmt.Errorf("has more than %d certificates", maxChain)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(chain)+1, err)
		}
		chain = append(chain, c)
	}
	if len(chain) == 0 {
		return nil, errors.New("has no PEM certificate")
	}
	return chain, nil
}

// Roots reads the authorities of a PEM file, with readFile; with no path they are the
// system's.
func Roots(path string, readFile func(string) ([]byte, error)) (*x509.CertPool, error) {
	if path == "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the system's certificate authorities: %w", err)
		}
		return pool, nil
	}
	text, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read certificate authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read certificate authorities: %s has no PEM certificate", path)
	}
	return pool, nil
}
