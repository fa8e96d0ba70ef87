# What the scripts around docker-compose.yml share; sourced in the project's directory.

# The containers' common name. Who calls compose by hand says the same: docker compose -p onced ps
export COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME:-onced}
export ONCED_IMAGE=${ONCED_IMAGE:-onced:local}

die() {
	printf '%s: %s\n' "${0##*/}" "$1" >&2
	exit 1
}

# find_compose sets the array compose to the command of Compose v2, else of v1.
find_compose() {
	command -v docker >/dev/null || die "docker is not here"
	docker info >/dev/null 2>&1 || die "no answer from the docker engine; expected it to run and this user to be allowed to use it"
	if docker compose version >/dev/null 2>&1; then
		compose=(docker compose)
	elif command -v docker-compose >/dev/null; then
		compose=(docker-compose)
	else
		die "neither docker compose (v2) nor docker-compose (v1, 1.28 or later) is here"
	fi
}

# container SERVICE prints the id of its container.
container() {
	docker ps -aq --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" \
		--filter "label=com.docker.compose.service=$1" --filter label=com.docker.compose.oneoff=False
}

# published SERVICE PORT prints where a container's port is reached from this machine.
published() { docker port "$(container "$1")" "$2/tcp" | head -n 1; }

# remove_project NAME removes all that a run of that name made, its image too. It asks docker, as compose may not get that far.
remove_project() {
	local ids
	{
		ids=$(docker ps -aq --filter "label=com.docker.compose.project=$1") && [[ -n $ids ]] && docker rm -f -v $ids
		ids=$(docker network ls -q --filter "name=$1") && [[ -n $ids ]] && docker network rm $ids
		ids=$(docker volume ls -q --filter "label=com.docker.compose.project=$1") && [[ -n $ids ]] && docker volume rm $ids
		ids=$(docker images --format '{{.Repository}}:{{.Tag}}' "$1") && [[ -n $ids ]] && docker rmi $ids
	} >/dev/null
}
