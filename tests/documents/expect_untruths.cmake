# Runs check_documents.py on a tree with one error of each kind, and expects exactly these reports.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../layering/expect_exactly.cmake)

file(REMOVE_RECURSE "${TREE}")
file(WRITE "${TREE}/run" "case $command in\n  build)\n    ;;\n  chat | bench)\n    ;;\nesac\n")
file(WRITE "${TREE}/apps/chat/chat.cc" "root.add_subcommand(\"chat\", \"\"); {\"edit\", \"N TEXT\"}")
file(WRITE "${TREE}/apps/bench/bench.cc" "root.add_subcommand(\n \"bench\", \"\"); root.add_subcommand(\"pull\", \"\"); root.add_subcommand(\"hidden\", \"\");")
file(WRITE "${TREE}/base/result.h" "")
file(WRITE "${TREE}/docs/other.md" "# A heading, and `code`\n")
file(WRITE "${TREE}/README.md" "\
[good](docs/other.md) [good](docs/other.md#a-heading-and-code) [far](https://example.org/x) [bad](docs/gone.md)
[bad](docs/other.md#no-heading) `base/result.h` `base/result` `base/*.h` `base/` `base/gone.h`
`ibid chat --resume NAME` `ibid chat --gone` `--resume` `--nowhere` `/edit` `/gone` `/etc/passwd`

    ./run chat 'Say --nothing' | ./run vanish    # not an --option
    echo x | build/release/apps/ibid bench --lengths 1 --resume x

```sh
ibid unheard
./run build --preset x
```
```cpp
int x;  // ibid nowhere --at-all
```
")
# A program with two commands.
file(WRITE "${TREE}/ibid" "#!/bin/sh\ncase $1 in --help) echo '  pull  fetches' ;; chat) echo '  --resume NAME' ;; bench) echo '--lengths' ;; *) exit 2 ;; esac\n")
file(CHMOD "${TREE}/ibid" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)

execute_process(COMMAND ${PYTHON} ${SCRIPT} ${TREE} ${TREE}/ibid RESULT_VARIABLE result ERROR_VARIABLE output)
expect_exactly("${result}" "${output}" "(README.md|run): "
  "run: does not know the command pull"
  "README.md: the link docs/gone.md leads nowhere"
  "README.md: the link docs/other.md#no-heading leads to no heading"
  "README.md: base/gone.h is not in the tree"
  "README.md: ./run vanish: there is no such command"
  "README.md: ibid chat: there is no option --gone"
  "README.md: build/release/apps/ibid bench: there is no option --resume"
  "README.md: ibid unheard: there is no such command"
  "README.md: /gone is no command of a conversation"
  "README.md: no command has the option --nowhere")
