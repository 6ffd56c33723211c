"""The exchange between regions: the questions of one directed pair, and what follows from the answers.

Sans-I/O, as everything in `protocol`: generators yield commands to the source or the destination, and get the answers.
`pull` is the rule in one page; the page "The design", under "Regions", says why.
"""
