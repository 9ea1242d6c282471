#include "apps/command.h"

#include <cstdio>

namespace ibid {

int report(const Status& status) {
  std::fprintf(stderr, "ibid: %s\n", status.message().c_str());
  return 1;
}

}  // namespace ibid
