ledger {
  max_keys = 0xff
}
