"""The exchange between regions: what one directed pair of them asks whom, and what it makes of the answers.

Sans-I/O, as everything here: generators yield what to ask the source or the destination, and are given the answers.
`pull` is the rule in one page; the page "The design", under "Regions", says why.
"""
