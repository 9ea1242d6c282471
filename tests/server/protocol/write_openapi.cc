// write_openapi PATH: writes the server's /openapi.json to a file, for make_http_api.py.
#include <cstdio>
#include <fstream>

#include "server/protocol/endpoints.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: write_openapi PATH.json\n", stderr);
    return 2;
  }
  std::ofstream file(argv[1]);
  file << ibid::serve::openapi_document().dump(1) << '\n';
  return file.flush() ? 0 : 1;
}
