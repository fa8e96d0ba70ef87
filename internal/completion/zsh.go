package completion

import (
	"fmt"
	"strings"
)

// zsh completes by one function for each command, in the terms of _arguments.
func zsh(root Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#compdef %[1]s\n# zsh completion for %[1]s:  source <(%[1]s completion zsh)\n", root.Name)
	walk(root, func(path string, c Command) { zshCommand(&b, root.Name, path, c) })
	fmt.Fprintf(&b, `
if [ "$funcstack[1]" = "_%[1]s" ]; then
    _%[1]s "$@"
else
    compdef _%[1]s %[1]s
fi
`, root.Name)
	return b.String()
}

// zshName is the function of a command.
func zshName(program, path string) string {
	return "_" + strings.ReplaceAll(strings.TrimSpace(program+" "+path), " ", "_")
}

func zshCommand(b *strings.Builder, program, path string, c Command) {
	var specs []string
	for _, f := range c.Flags {
		specs = append(specs, zshFlag(f)...)
	}
	fmt.Fprintf(b, "\n%s() {\n", zshName(program, path))
	if len(c.Commands) == 0 {
		for _, a := range c.Args {
			specs = append(specs, quote(":"+zshText(a.Name)+":"+zshValue(a.Choices, a.Files)))
		}
		fmt.Fprintf(b, "    _arguments %s\n}\n", zshLines(specs))
		return
	}
	specs = append(specs, quote("1: :->command"), quote("*:: :->rest"))
	fmt.Fprintf(b, "    local line state\n    local -a commands\n    _arguments -C %s\n", zshLines(specs))
	b.WriteString("    case $state in\n    command)\n        commands=(\n")
	for _, sub := range c.Commands {
		fmt.Fprintf(b, "            %s\n", quote(strings.ReplaceAll(sub.Name, ":", `\:`)+":"+sub.Help))
	}
	b.WriteString("        )\n        _describe command commands ;;\n    rest)\n        case $line[1] in\n")
	for _, sub := range c.Commands {
		fmt.Fprintf(b, "        %s) %s ;;\n", sub.Name, zshName(program, strings.TrimSpace(path+" "+sub.Name)))
	}
	b.WriteString("        esac ;;\n    esac\n}\n")
}

// zshFlag returns the specifications of a flag.
func zshFlag(f Flag) []string {
	help := "[" + zshText(f.Help) + "]"
	if !f.Value {
		specs := []string{quote("--" + f.Name + help)}
		if f.Short != 0 {
			specs = append(specs, quote("-"+string(f.Short)+help))
		}
		return specs
	}
	return []string{quote("--" + f.Name + "=" + help + ":" + f.Name + ":" + zshValue(f.Choices, f.Files))}
}

func zshValue(choices []string, files bool) string {
	switch {
	case choices != nil:
		return "(" + strings.Join(choices, " ") + ")"
	case files:
		return "_files"
	}
	return " "
}

// zshText escapes what _arguments takes for its own.
func zshText(text string) string {
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`).Replace(text)
}

func zshLines(specs []string) string { return strings.Join(specs, " \\\n        ") }
