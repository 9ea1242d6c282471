#include "apps/chat_client/event_stream.h"

#include <algorithm>
#include <utility>

namespace ibid {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

Status EventStream::take_line() {
  std::string_view line = line_;
  if (std::exchange(at_beginning_, false) && line.starts_with(kByteOrderMark)) {
    line.remove_prefix(kByteOrderMark.size());
  }
  if (line.empty()) {
    if (data_.empty()) return {};
    data_.pop_back();
    const std::string data = std::exchange(data_, {});
    return take_(data);
  }
  const size_t colon = std::min(line.find(':'), line.size());
  if (line.substr(0, colon) != "data") return {};
  std::string_view value = line.substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  data_.append(value);
  data_ += '\n';
  return {};
}

Status EventStream::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (std::exchange(after_cr_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    if (line_.size() + data_.size() + end > kMaxEventBytes) {
      return {ErrorCode::kLimitExceeded, "an event of the stream has no end"};
    }
    line_.append(bytes.substr(0, end));
    if (end == bytes.size()) return {};
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    TRY(take_line());
    line_.clear();
  }
  return {};
}

}  // namespace ibid
