// write_embedding_model PATH: writes a tiny embedding model, for tests of the server in other languages.
#include <cstdio>

#include "tests/server/talking_model.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: write_embedding_model PATH.gguf\n", stderr);
    return 2;
  }
  ibid::write_embedding_model(argv[1]);
  return 0;
}
