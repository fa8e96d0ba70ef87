package main

import (
	"fmt"

	"onced/internal/tokens"
)

type tokenCommand struct {
	New tokenNewCommand `cmd:"" help:"Make a token: prints it, and the line for the tokens file."`
}

type tokenNewCommand struct {
	Tenant string `required:"" placeholder:"NAME" help:"The tenant that it is of."`
	Role   string `required:"" placeholder:"ROLE" help:"client: the calls on its tenant's keys. operator: also resolve, forget, and whatever concerns the whole cluster. gateway: as a client, for any tenant."`
	Name   string `placeholder:"NAME" help:"Whose it is, for the audit line."`
}

// Run prints two lines: the token, which is shown only now, and its line for the tokens file.
func (c *tokenNewCommand) Run(a *app) error {
	token, line, err := tokens.New(c.Tenant, tokens.Role(c.Role), c.Name)
	if err != nil {
		return refusal{err}
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n%s\n", token, line)
	return err
}
