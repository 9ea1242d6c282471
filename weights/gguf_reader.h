// GgufFile: a .gguf file as a ModelFile. For a model split into parts (GgufSplit) the path may name any part. The
// metadata are those of the first part, the tensors those of all parts in order.
//
// Opening parses the header once and keeps an index into the mapping. String values are not copied, so a vocabulary of
// 50000 tokens costs milliseconds. Thread-safety and lifetimes: as ModelFile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "weights/assembled_tensors.h"
#include "weights/gguf_header.h"
#include "weights/model_file.h"

namespace ibid {

// GGUF models split into several files, NAME-00001-of-00003.gguf and so on, as llama-gguf-split writes them: the first
// part has all metadata, and each part has its own tensors. read_gguf_split() and gguf_part_name() are pure functions.
inline constexpr uint64_t kMaxGgufParts = 4096;  // each part is an open file and a mapping

// The values of a part's keys split.no, split.count and split.tensors.count.
struct GgufSplit {
  uint64_t number = 0;  // counted from 0
  uint64_t count = 1;
  std::optional<uint64_t> tensors_of_all;  // number of tensors in all parts
};

// Reads the keys of GgufSplit; if they are absent, returns part 1 of 1. Errors: kBadType, kBadNumber (part number out
// of range), kLimitExceeded; `what` names the file.
Result<GgufSplit> read_gguf_split(const GgufHeader& header, std::string_view what);

// Returns the file name of part `number`, given that `path` is part split.number. Error: kMissingShard if the name of
// `path` does not end like the name of part split.number.
Result<std::string> gguf_part_name(std::string_view path, const GgufSplit& split, uint64_t number);

class GgufFile : public ModelFile {
 public:
  // Opens the file, and the other parts if it is a part of a split model. Errors: those of MappedFile::open,
  // parse_gguf_header and read_gguf_split; kMissingShard for a part that is missing or whose part number differs from
  // that in its name; kDuplicate for a tensor in two parts; kTruncated if the parts have fewer tensors than
  // split.tensors.count.
  static Result<std::unique_ptr<ModelFile>> open(const std::string& path, const OpenOptions& options = {});
  // As open(path), for a file that is already mapped.
  static Result<std::unique_ptr<ModelFile>> open(MappedFile file, const OpenOptions& options = {});

  Container container() const override { return Container::kGguf; }
  const std::string& path() const override { return path_; }

  bool has(std::string_view key) const override { return header_.find(key) != nullptr; }
  Result<std::optional<int64_t>> get_int(std::string_view key) const override;
  Result<std::optional<double>> get_float(std::string_view key) const override;
  Result<std::optional<bool>> get_bool(std::string_view key) const override;
  Result<std::optional<std::string_view>> get_string(std::string_view key) const override;
  Result<std::optional<std::vector<std::string_view>>> get_strings(std::string_view key) const override;
  // Elements may be of any integer type; kBadNumber if an element does not fit into 64 bits.
  Result<std::optional<std::vector<int64_t>>> get_ints(std::string_view key) const override;
  // Returns an array of floats; the elements are F32 or F64. Integers are refused: scores declared INT8 are a known
  // attack on loaders.
  Result<std::optional<std::vector<double>>> get_floats(std::string_view key) const override;

  const Json* config_json() const override { return nullptr; }
  Result<std::optional<std::string>> companion(std::string_view name) const override;

  const std::vector<std::string>& tensor_names() const override { return names_; }
  const TensorView* find_tensor(std::string_view name) const override;

  std::vector<MetadataLine> describe_metadata() const override;
  const std::vector<std::string>& warnings() const override { return header_.warnings; }
  void release(const TensorView& tensor) const override;
  Status check_unchanged() const override;
  uint64_t file_bytes() const override;
  Result<Sha256Digest> digest(const std::stop_token& stop) const override { return digest_of_files(files_, stop); }
  const std::vector<GgufEntry>& entries() const { return header_.entries; }

 private:
  GgufFile(std::string path, MappedFile file, GgufHeader header);

  // Opens the other parts of the model whose first part is open.
  Status open_other_parts(const GgufSplit& split, const OpenOptions& options);
  void index_names();
  Status assemble_tensors();

  Status wrong_type(const GgufEntry& entry, std::string_view wanted) const;
  Result<int64_t> integer_at(const GgufEntry& entry, uint64_t index) const;

  std::string path_;               // path as the caller named it
  std::vector<MappedFile> files_;  // the mapped file, or those of all parts of a split model
  GgufHeader header_;              // header of the first part, with the tensors of all parts
  std::vector<std::string> names_;
  std::vector<uint32_t> by_name_;  // indices into header_.tensors, sorted by name
  // Tensors assembled from several others (weights/assembled_tensors.h), sorted by name.
  std::vector<AssembledTensor> assembled_;
};

// Returns all keys with their stored values, for copying to another file. REQUIRES: the container is kGguf.
const std::vector<GgufEntry>& gguf_entries(const ModelFile& file);

}  // namespace ibid
