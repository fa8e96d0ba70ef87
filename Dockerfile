# Two ways to the same image: nothing in it but the static binary, and no root.
#
#   scripts/compose-up                           builds the binary, then the stage "prebuilt" from it: needs no
#                                                registry and no other image
#   docker build --target prebuilt -t onced .    the same by hand, after
#                                                CGO_ENABLED=0 go build -trimpath -o dist/onced ./cmd/onced
#   docker build -t onced .                      builds from source: needs nothing but Docker (BuildKit)
#
# The builder before BuildKit runs every stage up to the one that is asked for, so those
# that need a registry stand after "prebuilt".

# What both ways share.
FROM scratch AS base
# A new named volume takes over the owner of the directory that it is mounted on.
COPY --chown=65532:65532 compose/data /var/lib/onced
WORKDIR /var/lib/onced
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
# The API, the other nodes, the gateway.
EXPOSE 8480 8481 8080
# There is no shell in here: the binary asks its own node. It says "unhealthy" of a node that is not ready, which
# is no reason to restart it: it may wait for the others.
HEALTHCHECK --interval=5s --timeout=5s --start-period=15s --retries=3 \
	CMD ["/onced", "status", "--ready", "--nodes", "http://127.0.0.1:8480"]
ENTRYPOINT ["/onced"]
CMD ["serve"]

FROM base AS prebuilt
COPY --chown=0:0 dist/onced /onced

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
ARG COMMIT=
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false \
	-ldflags "-X main.version=${VERSION} -X main.commit=${COMMIT}" -o /onced ./cmd/onced

FROM base AS source
COPY --from=build /onced /onced
