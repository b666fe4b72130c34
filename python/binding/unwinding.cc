// The names by which libgcc_s.so.1 unwinds, for a linker that has none for the machine: a library of that name is
// linked instead, and at run time the system's is there. The thread that pthread_exit() ends is unwound by the
// system's; a second unwinder in the module, as zig links one in, would be handed its state, which it does not know.

// NOLINTBEGIN(bugprone-reserved-identifier,clang-diagnostic-reserved-identifier): the ABI names them
#define NAME(name) \
  extern "C" void name() {}
NAME(_Unwind_Backtrace)
NAME(_Unwind_DeleteException)
NAME(_Unwind_FindEnclosingFunction)
NAME(_Unwind_ForcedUnwind)
NAME(_Unwind_GetCFA)
NAME(_Unwind_GetDataRelBase)
NAME(_Unwind_GetGR)
NAME(_Unwind_GetIP)
NAME(_Unwind_GetIPInfo)
NAME(_Unwind_GetLanguageSpecificData)
NAME(_Unwind_GetRegionStart)
NAME(_Unwind_GetTextRelBase)
NAME(_Unwind_RaiseException)
NAME(_Unwind_Resume)
NAME(_Unwind_Resume_or_Rethrow)
NAME(_Unwind_SetGR)
NAME(_Unwind_SetIP)
// NOLINTEND(bugprone-reserved-identifier,clang-diagnostic-reserved-identifier)
