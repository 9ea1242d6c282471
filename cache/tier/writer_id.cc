#include "cache/tier/writer_id.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "base/file_ops.h"

namespace ibid {

namespace {

KvWriterId make_writer_id() {
  constexpr uint64_t kMostBytes = 4096;  // of the machine's id; the file has 33
  std::string host(256, '\0');
  if (::gethostname(host.data(), host.size() - 1) != 0) host.clear();
  const Result<std::string> machine = read_file(system_file_ops(), "/etc/machine-id", kMostBytes);
  FingerprintBuilder builder;
  // The machine's id must not be published; its digest may be.
  builder.add("writer of KV records", machine.ok() ? *machine : std::string()).add("host", host.c_str());
  const Sha256Digest digest = builder.finish().bytes;
  KvWriterId id;
  std::copy_n(digest.begin(), id.size() / 2, id.begin());
  std::random_device random;
  const std::array<uint32_t, 2> own{random(), random()};
  std::memcpy(id.data() + id.size() / 2, own.data(), sizeof own);
  return id;
}

}  // namespace

KvWriterId own_writer_id() {
  static const KvWriterId id = make_writer_id();
  return id;
}

}  // namespace ibid
