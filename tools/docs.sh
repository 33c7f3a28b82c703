#!/usr/bin/env bash
# Builds the documentation site of mkdocs.yml in build/site. A warning, such as a link to nowhere, is an error.
#
# The generator is the group `docs` of pyproject.toml. It has a venv of its own in build/docs, made again when the group changes;
# that venv sees .venv as well, for the reference is made from the package itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
home=build/docs
wanted=$(.venv/bin/python tools/dependency_group.py docs)
if [ "$(cat "$home/group" 2>/dev/null)" != "$wanted" ]; then
    echo "treecast: installing the generator of the documentation site in $home"
    rm -rf "$home"
    mkdir -p "$home"
    .venv/bin/python -m venv "$home/venv"
    # shellcheck disable=SC2086
    "$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check $wanted
    for packages in "$home"/venv/lib/python*/site-packages; do
        printf 'import site; site.addsitedir("%s")\n' "$(echo "$PWD"/.venv/lib/python*/site-packages)" >"$packages/treecast.pth"
    done
    echo "$wanted" >"$home/group"
fi
.venv/bin/python tools/docs_pages.py "$home/pages"
rm -rf build/site
"$home/venv/bin/zensical" build --clean --strict >"$home/log" 2>&1 || { cat "$home/log" >&2; exit 1; }
echo "treecast: build/site/guide/index.html; to search in it: .venv/bin/python -m http.server --bind 127.0.0.1 --directory build/site"
