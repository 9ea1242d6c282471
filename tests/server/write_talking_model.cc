// write_talking_model PATH: a tiny model that can be talked to, for tests of the server that are no C++.
#include <cstdio>

#include "tests/server/talking_model.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: write_talking_model PATH.gguf\n", stderr);
    return 2;
  }
  ibid::write_talking_model(argv[1]);
  return 0;
}
