// OwnServer: this program once more, as `ibid serve` with one model on a free port of this machine, for as long as the
// object lives. It ends with this process, whatever ends that.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace ibid {

class OwnServer {
 public:
  // arguments: what stands behind `ibid serve`, without the port. Returns when the model is loaded.
  // Error: kIo with the last line that the server said.
  static Result<std::unique_ptr<OwnServer>> start(const std::vector<std::string>& arguments);
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  const std::string& url() const { return url_; }

 private:
  OwnServer(pid_t process, int errors) : process_(process), errors_(errors) {}
  // Reads what it says until it is ready. False: it has ended; then said_ is all of it.
  bool await_ready();

  pid_t process_;
  int errors_;
  std::string said_;
  std::string url_;
  std::thread reader_;  // of what it says later, which nobody needs
};

}  // namespace ibid
