#pragma once

#include <dlfcn.h>

namespace stretto {

/// Finds a function of a library that dlopen() has loaded, by its name. False: the library has none of it.
template <class Function>
bool find_function(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace stretto
