package completion

import (
	"fmt"
	"strings"
)

// bash completes by one function that finds out which command it is in, and looks the rest up.
// Bash splits words at "=", so that a flag and its value are two words in both spellings.
func bash(root Command) string {
	var b strings.Builder
	name := root.Name
	fmt.Fprintf(&b, `# bash completion for %[1]s:  source <(%[1]s completion bash)
_%[1]s() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} path= words= i
    if [[ $cur == "=" ]]; then
        cur=
    elif [[ $prev == "=" ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        %[2]s)
            [[ ${COMP_WORDS[i+1]} == "=" ]] && ((i++))
            ((i++))
            continue ;;
        esac
        case "$path ${COMP_WORDS[i]}" in
        %[3]s) path="$path ${COMP_WORDS[i]}" ;;
        esac
    done
    case "$path $prev" in
`, name, strings.Join(append(valued(root), "--"), " | "), bashPaths(root))
	walk(root, func(path string, c Command) {
		for _, f := range c.Flags {
			if f.Value {
				fmt.Fprintf(&b, "    %s) %s return ;;\n", quote(spaced(path)+" --"+f.Name), bashValue(f.Choices, f.Files))
			}
		}
	})
	b.WriteString("    esac\n    case \"$path\" in\n")
	walk(root, func(path string, c Command) {
		fmt.Fprintf(&b, "    %s)\n", quote(spaced(path)))
		fmt.Fprintf(&b, "        if [[ $cur == -* ]]; then\n            words=%s\n        else\n", quote(flagWords(c)))
		switch {
		case len(c.Commands) > 0:
			fmt.Fprintf(&b, "            words=%s\n", quote(commandWords(c)))
		case len(c.Args) > 0 && (c.Args[0].Files || c.Args[0].Choices != nil):
			fmt.Fprintf(&b, "            %s return\n", bashValue(c.Args[0].Choices, c.Args[0].Files))
		default:
			b.WriteString("            return\n")
		}
		b.WriteString("        fi ;;\n")
	})
	fmt.Fprintf(&b, "    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -o filenames -F _%[1]s %[1]s\n", name)
	return b.String()
}

// spaced is a path as the function builds it: a space before each name.
func spaced(path string) string {
	if path == "" {
		return ""
	}
	return " " + path
}

func bashPaths(root Command) string {
	var all []string
	for _, path := range paths(root) {
		all = append(all, quote(spaced(path)))
	}
	return strings.Join(all, " | ")
}

// bashValue completes a value: one of choices, a file, or nothing.
func bashValue(choices []string, files bool) string {
	switch {
	case choices != nil:
		return fmt.Sprintf(`COMPREPLY=($(compgen -W %s -- "$cur"));`, quote(strings.Join(choices, " ")))
	case files:
		return `COMPREPLY=($(compgen -f -- "$cur"));`
	}
	return ""
}

func flagWords(c Command) string {
	var words []string
	for _, f := range c.Flags {
		words = append(words, "--"+f.Name)
	}
	return strings.Join(words, " ")
}

func commandWords(c Command) string {
	var words []string
	for _, sub := range c.Commands {
		words = append(words, sub.Name)
	}
	return strings.Join(words, " ")
}

// quote returns text as one word of a POSIX shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
