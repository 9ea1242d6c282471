// ResponseWriter: what a handler says (reply.h) to the bytes that its client gets: head, chunks, the end. It knows no
// sockets. One is for one response.
#pragma once

#include <string>
#include <string_view>

#include "server/http/reply.h"
#include "server/http/response_text.h"

namespace ibid::http {

class ResponseWriter {
 public:
  struct Options {
    bool is_old = false;       // the client speaks HTTP/1.0: a stream ends with the connection
    bool head_only = false;    // HEAD
    bool keep_alive = true;
    Headers headers = {};      // besides the handler's
  };

  ResponseWriter() = default;
  explicit ResponseWriter(Options options) : options_(std::move(options)) {}

  // Appends the portion's bytes to `out`. False: the response breaks off here, and the connection is to be closed, so
  // that the client sees that it is not whole.
  bool add(Reply::Portion portion, std::string& out);
  // Bytes of a stream that the handler did not say. REQUIRES: is_streaming().
  void add_to_stream(std::string_view bytes, std::string& out) const;

  bool has_head() const { return has_head_; }
  bool is_streaming() const { return has_head_ && !is_whole_; }
  bool is_whole() const { return is_whole_; }
  // Whether the connection can carry another request behind this response.
  bool keep_alive() const { return options_.keep_alive; }

 private:
  void add_head(Response response, bool is_stream, std::string& out);

  Options options_;
  bool has_head_ = false;
  bool is_whole_ = false;
  bool in_chunks_ = false;
};

}  // namespace ibid::http
