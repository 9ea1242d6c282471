// What a program that installed ibid writes first: includes are relative to include/ibid.
#include <cstdio>

#include "base/json_limits.h"
#include "base/parallel.h"

int main() {
  ibid::ThreadTeam team(2);
  std::atomic<int> ran{0};
  team.run([&](const ibid::Worker&) { ran.fetch_add(1); });
  const ibid::Result<ibid::Json> json = ibid::parse_json(R"({"answer": 42})", "consumer");
  if (!json.ok() || ran.load() < 1) return 1;
  std::printf("%s\n", ibid::json_to_string(*json).c_str());
  return 0;
}
