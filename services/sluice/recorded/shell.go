package recorded

import (
	"errors"
	"strconv"
	"strings"
)

// shellWords splits a command line as a POSIX shell does, with $'…' as bash has it.
// What a shell would expand ($name, `…`, pipes) ends it or is refused.
func shellWords(text string) (all []string, err error) {
	var word strings.Builder
	inWord := false
	flush := func() {
		if inWord {
			all = append(all, word.String())
			word.Reset()
			inWord = false
		}
	}
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '\\' && i+1 < len(text):
			i++
			switch {
			case text[i] == '\n':
			case text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n':
				i++
			default:
				word.WriteByte(text[i])
				inWord = true
			}
		case b == ' ' || b == '\t' || b == '\r':
			flush()
		case b == '\n' || b == '|' || b == ';' || b == '>' || b == '&':
			flush()
			if len(all) == 0 {
				return nil, errors.New("the command is empty")
			}
			return all, nil // what follows is another command
		case b == '\'':
			end := strings.IndexByte(text[i+1:], '\'')
			if end < 0 {
				return nil, errors.New("a single quotation mark is not closed")
			}
			word.WriteString(text[i+1 : i+1+end])
			i += end + 1
			inWord = true
		case b == '"':
			n, err := doubleQuoted(text[i+1:], &word)
			if err != nil {
				return nil, err
			}
			i += n
			inWord = true
		case b == '$' && strings.HasPrefix(text[i+1:], "'"):
			n, err := ansiQuoted(text[i+2:], &word)
			if err != nil {
				return nil, err
			}
			i += n + 1
			inWord = true
		case b == '$' || b == '`':
			return nil, errors.New("it uses what a shell would put in ($ or `): put the text there itself")
		default:
			word.WriteByte(b)
			inWord = true
		}
	}
	flush()
	if len(all) == 0 {
		return nil, errors.New("the command is empty")
	}
	return all, nil
}

// doubleQuoted reads up to the closing mark, and says how long that is with it.
func doubleQuoted(text string, word *strings.Builder) (int, error) {
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '"':
			return i + 1, nil
		case b == '\\' && i+1 < len(text):
			i++
			switch next := text[i]; next {
			case '$', '`', '"', '\\':
				word.WriteByte(next)
			case '\n':
			default:
				word.WriteByte('\\')
				word.WriteByte(next)
			}
		case b == '$' || b == '`':
			return 0, errors.New("it uses what a shell would put in ($ or `): put the text there itself")
		default:
			word.WriteByte(b)
		}
	}
	return 0, errors.New("a double quotation mark is not closed")
}

// ansiQuoted reads bash's $'…', which browsers use for what they copy as curl.
func ansiQuoted(text string, word *strings.Builder) (int, error) {
	for i := 0; i < len(text); i++ {
		b := text[i]
		if b == '\'' {
			return i + 1, nil
		}
		if b != '\\' || i+1 >= len(text) {
			word.WriteByte(b)
			continue
		}
		i++
		next := text[i]
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[next]
		switch plain, ok := ansiEscapes[next]; {
		case ok:
			word.WriteByte(plain)
		case digits > 0:
			n := 0
			for n < digits && i+1+n < len(text) && strings.IndexByte("0123456789abcdefABCDEF", text[i+1+n]) >= 0 {
				n++
			}
			code, err := strconv.ParseUint(text[i+1:i+1+n], 16, 32)
			if err != nil {
				return 0, errors.New("an escape in $'…' has no digits")
			}
			if next == 'x' {
				word.WriteByte(byte(code))
			} else {
				word.WriteRune(rune(code))
			}
			i += n
		default:
			return 0, errors.New("an escape in $'…' is not known")
		}
	}
	return 0, errors.New("a $' is not closed")
}
