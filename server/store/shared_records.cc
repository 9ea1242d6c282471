#include "server/store/shared_records.h"

#include <algorithm>
#include <charconv>

#include "base/sha256.h"

namespace ibid::serve {
namespace {

constexpr std::string_view kFormat = "1";  // of all records
constexpr int64_t kMaxNumber = int64_t{1} << 53;

// Writes fields, each after its length: "5:Hello".
class FieldWriter {
 public:
  FieldWriter& add(std::string_view field) {
    bytes_ += std::to_string(field.size());
    bytes_ += ':';
    bytes_ += field;
    return *this;
  }
  FieldWriter& add(int64_t number) { return add(std::to_string(number)); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads fields. After the first field that is not as expected, has_failed() is true and all fields are empty or 0.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : rest_(bytes) {}

  std::string text() {
    const size_t end = std::min(rest_.find(':'), rest_.size());
    const std::optional<int64_t> n = shared_number(rest_.substr(0, end));
    if (has_failed_ || !n || end + 1 > rest_.size() || static_cast<uint64_t>(*n) > rest_.size() - end - 1) {
      return fail(), std::string();
    }
    std::string field(rest_.substr(end + 1, static_cast<size_t>(*n)));
    rest_.remove_prefix(end + 1 + field.size());
    return field;
  }
  int64_t number() {
    const std::optional<int64_t> number = shared_number(text());
    if (!number) fail();
    return number.value_or(0);
  }
  // Reads the number of elements that follow, each of which has at least one field.
  size_t count() {
    const int64_t n = number();
    if (static_cast<uint64_t>(n) > rest_.size() / 2) fail();
    return has_failed_ ? 0 : static_cast<size_t>(n);
  }
  Kept kind() {
    const int64_t kind = number();
    if (kind < 1 || kind > 3) fail();
    return has_failed_ ? Kept::kResponse : static_cast<Kept>(kind);
  }
  // Returns the error of a record that does not consist of exactly the fields that were read.
  Status status(const char* what) const {
    if (!has_failed_ && rest_.empty()) return {};
    return {ErrorCode::kCorrupt, std::string("shared store: not a sound ") + what};
  }
  bool has_failed() const { return has_failed_; }

 private:
  void fail() {
    has_failed_ = true;
    rest_ = {};
  }
  std::string_view rest_;
  bool has_failed_ = false;
};

// Begins a record, or checks its beginning.
FieldWriter new_record() { return std::move(FieldWriter().add(kFormat)); }
Status check_format(FieldReader& reader) {
  const std::string format = reader.text();
  if (reader.has_failed() || format == kFormat) return {};
  return {ErrorCode::kUnsupportedVersion, "shared store: another version of ibid wrote a record"};
}

}  // namespace

std::optional<int64_t> shared_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number < 0 || number > kMaxNumber ? std::nullopt : std::optional(number);
}

std::string SharedNames::hidden(std::initializer_list<std::string_view> parts) const {
  Sha256 sha;
  for (const std::string_view part : parts) {
    sha.update(std::to_string(part.size()) + ":");
    sha.update(part);
  }
  const Sha256Digest digest = sha.finish();
  const std::string key = server_->key("conversations", std::span(digest).first(16), which_);
  return key.substr(key.rfind(':') + 1);
}

std::string SharedNames::entry(const KeptRows::Key& key) const {
  return hidden({"entry", std::to_string(static_cast<int64_t>(key.kind)), key.space, key.name});
}

std::string SharedNames::prefix(const std::string& space, uint64_t hash, size_t n) const {
  return hidden({"prefix", space, std::to_string(hash), std::to_string(n)});
}

std::string SharedNames::item(const std::string& space, const std::string& item_id) const {
  return hidden({"item", space, item_id});
}

std::vector<std::string> SharedNames::places(const std::string& space, const KeptRows::Row& row) const {
  std::vector<std::string> places;
  for (size_t i = 0; i < std::min(row.item_ids.size(), kMaxPlaces); ++i) {
    places.push_back(item(space, row.item_ids[i]));
  }
  if (row.kind == Kept::kHistory && row.first > 0) {
    const size_t n_all = row.hashes.size();
    for (size_t n = std::max(row.first, n_all - std::min(n_all, kMaxPlaces) + 1); n <= n_all; ++n) {
      places.push_back(prefix(space, row.hashes[n - 1], n));
    }
  }
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

std::string to_record(const SharedRoot& root) {
  return new_record()
      .add(root.n_changes)
      .add(root.used)
      .add(root.n_bytes)
      .add(root.n_histories)
      .add(root.history_bytes)
      .take();
}

Result<SharedRoot> root_from(std::string_view record) {
  FieldReader reader(record);
  TRY(check_format(reader));
  SharedRoot root;
  for (int64_t* number : {&root.n_changes, &root.used, &root.n_bytes, &root.n_histories, &root.history_bytes}) {
    *number = reader.number();
  }
  TRY(reader.status("root"));
  return root;
}

std::string to_record(const SharedInfo& info) {
  FieldWriter writer = new_record();
  writer.add(static_cast<int64_t>(info.key.kind)).add(info.key.space).add(info.key.name);
  writer.add(info.api_key).add(info.owner).add(info.n_bytes).add(info.text_bytes);
  writer.add(info.is_gone ? 1 : 0).add(info.n_children);
  writer.add(static_cast<int64_t>(info.chain.size()));
  for (const SharedInfo::Link& link : info.chain) writer.add(link.id).add(link.text_bytes);
  writer.add(static_cast<int64_t>(info.places.size()));
  for (const std::string& place : info.places) writer.add(place);
  return writer.take();
}

Result<SharedInfo> info_from(std::string_view record) {
  FieldReader reader(record);
  TRY(check_format(reader));
  SharedInfo info;
  info.key.kind = reader.kind();
  for (std::string* text : {&info.key.space, &info.key.name, &info.api_key, &info.owner}) *text = reader.text();
  info.n_bytes = reader.number();
  info.text_bytes = reader.number();
  info.is_gone = reader.number() != 0;
  info.n_children = reader.number();
  info.chain.resize(reader.count());
  for (SharedInfo::Link& link : info.chain) {
    link.id = reader.text();
    link.text_bytes = reader.number();
  }
  info.places.resize(reader.count());
  for (std::string& place : info.places) place = reader.text();
  TRY(reader.status("entry"));
  return info;
}

std::string to_record(const std::string& space, const KeptRows::Row& row) {
  return new_record()
      .add(static_cast<int64_t>(row.kind))
      .add(space)
      .add(row.name)
      .add(row.created)
      .add(row.version)
      .add(row.conversation)
      .add(row.n_output)
      .add(row.items)
      .add(row.body)
      .take();
}

Result<SharedText> text_from(std::string_view record) {
  FieldReader reader(record);
  TRY(check_format(reader));
  SharedText text;
  KeptRows::Row& row = text.row;
  row.kind = reader.kind();
  text.space = reader.text();
  row.name = reader.text();
  row.created = reader.number();
  row.version = reader.number();
  row.conversation = reader.text();
  row.n_output = reader.number();
  row.items = reader.text();
  row.body = reader.text();
  TRY(reader.status("text"));
  return text;
}

std::string SharedMember::text() const {
  return id + ":" + owner + ":" + std::to_string(static_cast<int64_t>(kind)) + ":" + std::to_string(n_bytes);
}

std::optional<SharedMember> SharedMember::parse(std::string_view text) {
  std::string_view parts[4];
  for (std::string_view& part : parts) {
    const size_t end = std::min(text.find(':'), text.size());
    part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const std::optional<int64_t> kind = shared_number(parts[2]), n_bytes = shared_number(parts[3]);
  if (!text.empty() || !kind || *kind < 1 || *kind > 3 || !n_bytes) return std::nullopt;
  return SharedMember{std::string(parts[0]), std::string(parts[1]), static_cast<Kept>(*kind), *n_bytes};
}

}  // namespace ibid::serve
