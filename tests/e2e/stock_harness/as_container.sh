# Run a program that knows only the paths of a container, with the harness of its own environment:
# sh as_container.sh PROGRAM ARGUMENTS. Without Docker it gets a mount namespace in which its run directory has that path.
set -eu
unset PYTHONPATH
if [ "$DET_RUNTIME" = docker ]; then exec "$@"; fi
exec unshare --mount sh -euc '
    mount -t tmpfs none /run
    mkdir /run/determined
    mount --bind "$DET_RUN_DIR" /run/determined
    cd "$DET_WORKDIR"
    exec "$@"
' sh "$@"
