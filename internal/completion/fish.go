package completion

import (
	"fmt"
	"strings"
)

// fish completes by one line for each thing that may come, with the command after which it may.
func fish(root Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# fish completion for %[1]s:  %[1]s completion fish | source
function __%[1]s_path
    set -l path
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
            continue
        end
        switch $word
            case %[2]s
                set skip 1
                continue
        end
        switch "$path $word"
            case %[3]s
                set path "$path $word"
        end
    end
    echo "$path"
end
function __%[1]s_at
    test (__%[1]s_path | string collect; or true) = "$argv[1]"
end
complete -c %[1]s -f
`, root.Name, strings.Join(append(valued(root), "--"), " "), fishPaths(root))
	walk(root, func(path string, c Command) {
		at := fmt.Sprintf("complete -c %s -n %s", root.Name, fishQuote(fmt.Sprintf("__%s_at %q", root.Name, spaced(path))))
		for _, sub := range c.Commands {
			fmt.Fprintf(&b, "%s -a %s -d %s\n", at, sub.Name, fishQuote(sub.Help))
		}
		for _, a := range c.Args {
			if a.Choices != nil || a.Files {
				fmt.Fprintf(&b, "%s%s\n", at, fishValue(a.Choices, a.Files))
			}
		}
		for _, f := range c.Flags {
			fmt.Fprintf(&b, "%s -l %s", at, f.Name)
			if f.Short != 0 {
				fmt.Fprintf(&b, " -s %c", f.Short)
			}
			if f.Value {
				b.WriteString(" -r")
				b.WriteString(fishValue(f.Choices, f.Files))
			}
			fmt.Fprintf(&b, " -d %s\n", fishQuote(f.Help))
		}
	})
	return b.String()
}

func fishPaths(root Command) string {
	var all []string
	for _, path := range paths(root) {
		all = append(all, fishQuote(spaced(path)))
	}
	return strings.Join(all, " ")
}

func fishValue(choices []string, files bool) string {
	switch {
	case choices != nil:
		return " -f -a " + fishQuote(strings.Join(choices, " "))
	case files:
		return " -F"
	}
	return " -f"
}

// fishQuote returns text as one word of fish.
func fishQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}
