#pragma once

#include <string>
#include <string_view>

#include "stretto/base/error.h"
#include "workloads/sequences.h"

namespace stretto {

/// Reads the text of a .ts file as the UEA & UCR archive writes it: `#` comments, a header of `@key value` lines with
/// `@classLabel true …` and perhaps `@dimensions n` or `@univariate true`, `@data`, then one line a series with
/// dimensions between colons, numbers between commas, and the label last. Series may differ in length, the dimensions
/// of one may not. Not supported, and refused: time stamps, missing values, files without class labels. Errc::bad_input
/// names `name`, the line, its text and the text expected.
Result<Sequences> parse_ts(std::string_view content, std::string_view name);

}  // namespace stretto
