#pragma once

#include <functional>
#include <memory>
#include <string>

#include "stretto/membership/views/register.h"

namespace stretto {

/// A kind of register, for the suite that each kind must pass.
struct RegisterKind {
  std::string name;
  /// Makes an empty register, and with each call another one.
  std::function<std::unique_ptr<Register>()> make;
};

/// A view that may follow `before`.
View view_after(const View& before);

/// Expects of registers of `kind` what the interface promises.
void expect_register(const RegisterKind& kind);

}  // namespace stretto
