package webhook

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strings"
)

var errNotXML = errors.New("the body is not XML of the kind that is read")

// maxXMLDepth is how deep elements may lie in each other.
const maxXMLDepth = 100

// scanXML finds the wanted values of an XML document, each absent until found; a path
// is the names of elements, the root's first. It reads as little of XML as providers
// send: elements and text, no directives, so no entities but XML's own five. An
// element on a wanted path that comes twice in its parent refuses the document,
// because two readers may take different ones. An element of elements has no text.
func (f *fields) scanXML(doc []byte) ([]value, error) {
	out := make([]value, len(f.paths))
	type open struct {
		node     *node
		seen     uint64
		text     []byte
		elements bool
	}
	stack := []open{{node: &f.root}}
	roots := 0
	d := xml.NewDecoder(bytes.NewReader(doc))
	for {
		token, err := d.Token()
		var syntax *xml.SyntaxError
		switch {
		case err == nil:
		case errors.As(err, &syntax), len(stack) > 1, roots != 1, d.InputOffset() < int64(len(doc)):
			return nil, errNotXML // the error would repeat the body
		default:
			return out, nil // the end
		}
		top := &stack[len(stack)-1]
		switch t := token.(type) {
		case xml.StartElement:
			if len(stack) == 1 {
				roots++
			}
			if len(stack) > maxXMLDepth || t.Name.Space != "" {
				return nil, errNotXML
			}
			top.elements = true
			var child *node
			if top.node != nil {
				if at := slices.Index(top.node.keys, t.Name.Local); at >= 0 {
					if top.seen&(1<<at) != 0 {
						return nil, fmt.Errorf("the body has the element %q twice in one element", t.Name.Local)
					}
					top.seen |= 1 << at
					child = top.node.next[at]
				}
			}
			stack = append(stack, open{node: child})
		case xml.EndElement:
			if n := top.node; n != nil && n.leaf > 0 && !top.elements {
				out[n.leaf-1] = value{kind: plain, raw: top.text}
			}
			stack = stack[:len(stack)-1]
		case xml.CharData:
			if len(stack) == 1 && strings.TrimSpace(string(t)) != "" {
				return nil, errNotXML
			}
			if top.node != nil && top.node.leaf > 0 {
				top.text = append(top.text, t...)
			}
		case xml.Directive:
			return nil, errNotXML
		}
	}
}
